# Writes OUTPUT, a C++ source whose function stretto::FUNCTION() holds FILES (named as below ROOT).
# Pieces stay under the length that every compiler accepts for one literal.
set(entries "")
foreach(file IN LISTS FILES)
  file(RELATIVE_PATH name ${ROOT} ${file})
  file(READ ${file} text)
  string(LENGTH "${text}" length)
  set(literal "")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 12000 piece)
    string(APPEND literal "R\"~~(${piece})~~\"\n")
    math(EXPR at "${at} + 12000")
  endwhile()
  string(APPEND entries "    {\"${name}\",\n${literal}},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"core/embedded_text.h\"

namespace stretto {
std::span<const EmbeddedText> ${FUNCTION}() {
  static const EmbeddedText texts[] = {
${entries}  };
  return texts;
}
}  // namespace stretto
")
