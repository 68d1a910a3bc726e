// One death of the faulty runner, as its command line plans it: kill@step:17. Or that it is slow.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace runnel::faulty {

// What is counted until the death, from 0: the first one is that with the number 0.
enum class Moment {
  kLoad,       // tensors taken from the file
  kStep,       // forward passes
  kOperation,  // operations within forward passes
  kToken,      // not counted: the death comes with every batch that has the token of this id
};

class Fault {
 public:
  // kill, abort, breach (of the sandbox) or stop (until somebody sends SIGCONT), @, load, step, operation or
  // token, :, a number. Or pace@step: and the milliseconds that each forward pass waits before it begins: no
  // death, but time to do something between two tokens. Nothing if it is written otherwise.
  static std::optional<Fault> parse(std::string_view text);

  // Called before what it is about; dies, or waits, if this is the moment. `position`: the last one of the
  // forward pass it is in.
  void at(Moment moment, uint64_t number, uint32_t position) const;

 private:
  Fault(int signal, Moment moment, uint64_t number) : signal_(signal), moment_(moment), number_(number) {}

  int signal_;
  Moment moment_;
  uint64_t number_;
};

}  // namespace runnel::faulty
