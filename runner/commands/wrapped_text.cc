#include "runner/commands/wrapped_text.h"

#include <sstream>

namespace runnel {

std::string wrapped(const std::string& text, size_t columns) {
  std::istringstream words(text);
  std::string lines;
  size_t length = 0;
  for (std::string word; words >> word; length += word.size()) {
    if (length > 0 && length + 1 + word.size() > columns) {
      lines += '\n';
      length = 0;
    } else if (length > 0) {
      lines += ' ';
      length += 1;
    }
    lines += word;
  }
  return lines;
}

}  // namespace runnel
