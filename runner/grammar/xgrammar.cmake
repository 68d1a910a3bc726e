# XGrammar as a library without its bindings, from the source that `make xgrammar` has fetched.
if(NOT EXISTS ${RUNNEL_XGRAMMAR}/include/xgrammar/xgrammar.h)
  message(FATAL_ERROR "There is no XGrammar in ${RUNNEL_XGRAMMAR}. Fetch it by `make xgrammar`, name its folder by "
    "-DRUNNEL_XGRAMMAR=PATH, or build runners without serve by -DRUNNEL_PROTOBUF=OFF.")
endif()

# Sanitizers are for the project's own code. Compiling XGrammar for them too would take longer than all of
# that code. In an uninstrumented XGrammar they still see what it does with the project's memory.
set(RUNNEL_XGRAMMAR_LIBRARY "" CACHE FILEPATH "XGrammar as another build has compiled it; empty: it is compiled here")
set(XGRAMMAR_INCLUDES
  ${RUNNEL_XGRAMMAR}/include ${RUNNEL_XGRAMMAR}/3rdparty/dlpack/include ${RUNNEL_XGRAMMAR}/3rdparty/picojson)
if(RUNNEL_XGRAMMAR_LIBRARY)
  add_library(xgrammar STATIC IMPORTED)
  set_target_properties(xgrammar PROPERTIES IMPORTED_LOCATION ${RUNNEL_XGRAMMAR_LIBRARY})
  target_include_directories(xgrammar SYSTEM INTERFACE ${XGRAMMAR_INCLUDES})
  return()
endif()

# Sources that nothing of Runnel needs: the bindings for Python, the grammars of Lark, for which left_out.cc stands in, and
# the forms other than JSON in which some models write the arguments of a call.
file(GLOB_RECURSE XGRAMMAR_SOURCES ${RUNNEL_XGRAMMAR}/cpp/*.cc)
list(FILTER XGRAMMAR_SOURCES EXCLUDE REGEX "/cpp/(tvm_ffi|converter_ext)/|/cpp/(lark|json_schema)_converter\\.cc$")

# The converter of JSON schemas is compiled from a changed copy. A version of XGrammar without the changed places must be
# checked again.
set(XGRAMMAR_CONVERTER ${RUNNEL_XGRAMMAR}/cpp/json_schema_converter.cc)
set(XGRAMMAR_PATCHED ${CMAKE_CURRENT_BINARY_DIR}/xgrammar-patched/json_schema_converter.cc)
file(READ ${XGRAMMAR_CONVERTER} CONVERTER_TEXT)
function(require_has file content text)
  string(FIND "${content}" "${text}" PLACE)
  if(PLACE EQUAL -1)
    message(FATAL_ERROR "${file} has no \"${text}\": it is no XGrammar 0.2.8.")
  endif()
  set(PLACE ${PLACE} PARENT_SCOPE)
endfunction()
# Removes the text that begins with `first`, up to the next `end`.
function(cut_from_converter first end)
  require_has(${XGRAMMAR_CONVERTER} "${CONVERTER_TEXT}" "${first}")
  string(SUBSTRING "${CONVERTER_TEXT}" 0 ${PLACE} before)
  string(SUBSTRING "${CONVERTER_TEXT}" ${PLACE} -1 CONVERTER_TEXT)
  require_has(${XGRAMMAR_CONVERTER} "${CONVERTER_TEXT}" "${end}")
  string(SUBSTRING "${CONVERTER_TEXT}" ${PLACE} -1 after)
  set(CONVERTER_TEXT "${before}${after}" PARENT_SCOPE)
endfunction()

# XGrammar 0.2.8 allows raw control characters in strings whose length a schema bounds, which JSON does not. The changed line
# has what unbounded strings have.
set(BOUNDED [=[builder_.AddCharacterClass({{'"', '"'}, {'\\', '\\'}, {'\r', '\r'}, {'\n', '\n'}}, true);]=])
require_has(${XGRAMMAR_CONVERTER} "${CONVERTER_TEXT}" "${BOUNDED}")
string(REPLACE "${BOUNDED}" "builder_.AddCharacterClass({{0, 0x1f}, {'\"', '\"'}, {'\\\\', '\\\\'}}, true);  // changed by Runnel"
  CONVERTER_TEXT "${CONVERTER_TEXT}")
# The forms other than JSON are errors, as those that XGrammar does not know. They are named in two switches.
cut_from_converter("// ==================== XMLToolCallingConverter Implementation"
  "// ==================== Range Regex Generation")
foreach(switch 1 2)
  cut_from_converter("    case JSONFormat::kQwenXML:\n" "    default:\n")
endforeach()
file(GENERATE OUTPUT ${XGRAMMAR_PATCHED} CONTENT "${CONVERTER_TEXT}")
list(APPEND XGRAMMAR_SOURCES ${XGRAMMAR_PATCHED})

# XGrammar 0.2.8 expands a repetition of a rule that is only a repetition of itself, such as `a ::= a{3,}`, until the stack is
# full. The changed copy refuses repetitions that are nested deeper than any that is meant.
set(XGRAMMAR_FUNCTOR ${RUNNEL_XGRAMMAR}/cpp/grammar_functor.cc)
set(XGRAMMAR_BOUNDED ${CMAKE_CURRENT_BINARY_DIR}/xgrammar-patched/grammar_functor.cc)
file(READ ${XGRAMMAR_FUNCTOR} FUNCTOR_TEXT)
set(EXPANSION "      grammar_expr_id = VisitExpr(ref_choice[0]);\n")
set(LAST_MEMBER "  std::map<std::vector<int64_t>, int32_t> repetition_cache_;\n")
foreach(text "${EXPANSION}" "${LAST_MEMBER}")
  require_has(${XGRAMMAR_FUNCTOR} "${FUNCTOR_TEXT}" "${text}")
endforeach()
string(REPLACE "${EXPANSION}" "      // changed by Runnel
      if (depth_ == 1000) XGRAMMAR_LOG(FATAL) << \"repetitions are nested deeper than 1000\";
      ++depth_;
${EXPANSION}      --depth_;
" FUNCTOR_TEXT "${FUNCTOR_TEXT}")
string(REPLACE "${LAST_MEMBER}" "${LAST_MEMBER}  int depth_ = 0;  // changed by Runnel
" FUNCTOR_TEXT "${FUNCTOR_TEXT}")
file(GENERATE OUTPUT ${XGRAMMAR_BOUNDED} CONTENT "${FUNCTOR_TEXT}")
list(REMOVE_ITEM XGRAMMAR_SOURCES ${XGRAMMAR_FUNCTOR})
list(APPEND XGRAMMAR_SOURCES ${XGRAMMAR_BOUNDED})

# No warnings for code of other projects. What runs in each step of an answer, and what makes the masks of a grammar, is
# compiled with -O2, and what reads a grammar with -O1. Both are compiled in groups, which saves a third of the time.
set(STEP_SOURCES ${XGRAMMAR_SOURCES})
list(FILTER STEP_SOURCES INCLUDE REGEX "/(earley_parser|grammar_matcher|compiled_grammar)\\.cc$")
set(MASK_SOURCES ${XGRAMMAR_SOURCES})
list(FILTER MASK_SOURCES INCLUDE REGEX "/(grammar_compiler|grammar_functor|fsm|fsm_builder|suffix_automata)\\.cc$")
list(REMOVE_ITEM XGRAMMAR_SOURCES ${STEP_SOURCES} ${MASK_SOURCES})
set(TAG_SOURCES ${XGRAMMAR_SOURCES})
list(FILTER TAG_SOURCES INCLUDE REGEX "/(structural_tag|tokenizer_info|testing|config|logging|recursion_guard)\\.cc$")
set(READ_SOURCES ${XGRAMMAR_SOURCES})
list(REMOVE_ITEM READ_SOURCES ${TAG_SOURCES})
list(APPEND TAG_SOURCES ${CMAKE_CURRENT_LIST_DIR}/xgrammar/log.cc ${CMAKE_CURRENT_LIST_DIR}/xgrammar/left_out.cc)

add_library(xgrammar_reading OBJECT ${READ_SOURCES} ${TAG_SOURCES})
target_compile_options(xgrammar_reading PRIVATE -w -O1)
compile_together(xgrammar_reading read ${READ_SOURCES})
compile_together(xgrammar_reading tags ${TAG_SOURCES})
add_library(xgrammar STATIC ${STEP_SOURCES} ${MASK_SOURCES} $<TARGET_OBJECTS:xgrammar_reading>)
target_compile_options(xgrammar PRIVATE -w -O2)
compile_together(xgrammar steps ${STEP_SOURCES})
compile_together(xgrammar masks ${MASK_SOURCES})
foreach(target xgrammar xgrammar_reading)
  target_include_directories(${target} SYSTEM PUBLIC ${XGRAMMAR_INCLUDES})
  # The copy and left_out.cc include headers of this folder.
  target_include_directories(${target} PRIVATE ${RUNNEL_XGRAMMAR}/cpp)
  # The library logs through xgrammar/log.cc.
  target_compile_definitions(${target} PRIVATE
    XGRAMMAR_LOG_CUSTOMIZE=1 XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
endforeach()
