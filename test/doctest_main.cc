// The main function of each program of tests, and the reporter from which test/run.ts counts the cases:
// `--reporters=console,cases`.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace {

// Writes one line to stderr when a case begins, with its name, and one when it has ended. A case that cannot
// run on this machine says so by MESSAGE("SKIPPED: ..."). Processes that a case forks write nothing: their
// end is not that of the case.
class CaseReporter final : public doctest::IReporter {
 public:
  explicit CaseReporter(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData& data) override {
    is_skipped_ = false;
    write("begins: ", data.m_name);
  }
  void log_message(const doctest::MessageData& message) override {
    if (std::strncmp(message.m_string.c_str(), kSkipped, std::strlen(kSkipped)) == 0) is_skipped_ = true;
  }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    write(!stats.testCaseSuccess ? "failed" : is_skipped_ ? "skipped" : "passed", "");
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  static constexpr const char* kSkipped = "SKIPPED: ";

  void write(const char* what, const char* name) const {
    if (getpid() == pid_) std::fprintf(stderr, "\n[case] %s%s\n", what, name);
  }

  const pid_t pid_ = getpid();
  bool is_skipped_ = false;
};

DOCTEST_REGISTER_REPORTER("cases", 1, CaseReporter);

}  // namespace
