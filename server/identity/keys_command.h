// `upscaled keys`: makes keys, and their entries for the file of --auth-keys.
#pragma once

#include <istream>
#include <ostream>

namespace upscaled::server {

// `upscaled keys new [--name NAME] [--tenant NAME] [--role ROLE]...` writes a fresh key, kept
// nowhere, and its entry; `upscaled keys url [--id ID] [--tenant NAME]` does so for a key to sign
// URLs; `upscaled keys hash` reads a key and writes its hash. Returns the exit code: 0, or 2 with a
// line in `err`.
int RunKeysCommand(int argc, const char* const* argv, std::istream& in, std::ostream& out,
                   std::ostream& err);

}  // namespace upscaled::server
