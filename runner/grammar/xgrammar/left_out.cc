// Stands in for XGrammar's lark_converter.cc, which is not compiled: no request has a grammar of Lark.
#include "lark_converter.h"
#include "xgrammar/exception.h"

namespace xgrammar {

Grammar LarkToGrammar(const std::string&, const std::optional<TokenizerInfo>&,
                      const std::vector<NamedGrammar>&) {
  throw XGrammarError("Grammars of Lark are not compiled into this library.");
}

}  // namespace xgrammar
