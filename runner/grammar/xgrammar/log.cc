// What XGrammar calls instead of writing to stderr: sources are a client's, and belong into no log.
#include <string>

#include "xgrammar/exception.h"

namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string&, int, const std::string& message) {
  throw XGrammarError(message);
}

void LogMessageImpl(const std::string&, int, int, const std::string&) {}

}  // namespace xgrammar
