# Writes OUTPUT: the function of embedded_files.h over FILES.
set(arrays "")
set(entries "")
foreach(file IN LISTS FILES)
  cmake_path(GET file FILENAME name)
  string(MAKE_C_IDENTIFIER ${name} identifier)
  file(READ ${file} bytes HEX)
  file(SHA256 ${file} digest)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char ${identifier}[] = {${bytes}0};\n")
  string(APPEND entries
    "    {\"${name}\", {reinterpret_cast<const char*>(${identifier}), sizeof ${identifier} - 1}, \"${digest}\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"server/rest/embedded_files.h\"

namespace upscaled::server {
namespace {

${arrays}
}  // namespace

std::span<const EmbeddedFile> EmbeddedFiles() {
  static const EmbeddedFile kFiles[] = {
${entries}  };
  return kFiles;
}

}  // namespace upscaled::server
")
