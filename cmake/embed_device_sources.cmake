# Writes OUTPUT, a C++ source that holds HEADERS (below ROOT) as text. Pieces stay under the length
# that every compiler accepts for one literal.
set(entries "")
foreach(header IN LISTS HEADERS)
  file(RELATIVE_PATH name ${ROOT} ${header})
  file(READ ${header} text)
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
file(WRITE ${OUTPUT} "#include \"cuda/device_sources.h\"

namespace stretto::cuda {
std::span<const DeviceSource> device_sources() {
  static const DeviceSource sources[] = {
${entries}  };
  return sources;
}
}  // namespace stretto::cuda
")
