// The fault of the faulty runner, from its command line: a death, as kill@step:17, or slowness.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace runnel::faulty {

// What is counted, from 0 on, until the death.
enum class Moment {
  kLoad,   // tensors taken from the file
  kStep,   // forward passes
  kToken,  // not counted: the number is a token id, and the death comes with a batch that has this token
};

class Fault {
 public:
  // Parses DEATH@MOMENT:NUMBER. DEATH is kill, abort, breach (of the sandbox) or stop (until SIGCONT comes);
  // MOMENT is load, step or token. pace@step:MILLISECONDS is no death: every forward pass waits for this time
  // before it begins, so that a test can act between two tokens. Returns nothing for other texts.
  static std::optional<Fault> parse(std::string_view text);

  // Called before each load, step and token. Dies or waits if this is the moment. position: the
  // last position of the current forward pass.
  void at(Moment moment, uint64_t number, uint32_t position) const;

 private:
  Fault(int signal, Moment moment, uint64_t number) : signal_(signal), moment_(moment), number_(number) {}

  int signal_;
  Moment moment_;
  uint64_t number_;
};

}  // namespace runnel::faulty
