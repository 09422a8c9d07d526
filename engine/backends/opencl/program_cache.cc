#include "engine/backends/opencl/program_cache.h"

#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/files.h"

namespace upscaled::opencl {
namespace {

namespace fs = std::filesystem;

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    UPSCALED_CHECK(context_ != nullptr);
    UPSCALED_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void Add(const void* data, size_t bytes) {
    UPSCALED_CHECK(EVP_DigestUpdate(context_.get(), data, bytes) == 1);
  }
  std::string Hex() {
    std::array<char, 32> digest;
    UPSCALED_CHECK(EVP_DigestFinal_ex(context_.get(),
                                      reinterpret_cast<unsigned char*>(digest.data()),
                                      nullptr) == 1);
    return absl::BytesToHexString({digest.data(), digest.size()});
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

std::string HashOf(std::span<const uint8_t> bytes) {
  Sha256 hash;
  hash.Add(bytes.data(), bytes.size());
  return hash.Hex();
}

// The first line of a file; the program follows.
std::string Header(const std::string& key, std::span<const uint8_t> program) {
  return absl::StrCat("upscaled program 1 ", key, " ", HashOf(program), "\n");
}

}  // namespace

absl::StatusOr<ProgramCache> ProgramCache::Open(const fs::path& folder) {
  std::error_code error;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make folder ", folder.string()));
  }
  struct stat info;
  if (stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(folder.string(), " is no folder"));
  }
  if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("folder ", folder.string(),
                     " may be written by others than this user: programs from it are run"));
  }
  return ProgramCache(folder);
}

std::string ProgramCache::Key(std::span<const std::string_view> parts) {
  Sha256 hash;
  for (const std::string_view part : parts) {
    const uint64_t bytes = part.size();  // no two lists of parts give the same stream
    hash.Add(&bytes, sizeof(bytes));
    hash.Add(part.data(), part.size());
  }
  return hash.Hex();
}

fs::path ProgramCache::PathOf(const std::string& key) const {
  return folder_ / absl::StrCat(key, ".clbin");
}

std::optional<std::vector<uint8_t>> ProgramCache::Load(const std::string& key) const {
  std::ifstream file(PathOf(key), std::ios::binary);
  std::string header;
  if (!std::getline(file, header)) return std::nullopt;
  header += '\n';
  std::vector<uint8_t> program{std::istreambuf_iterator<char>(file), {}};
  if (file.bad() || header != Header(key, program)) return std::nullopt;
  return program;
}

absl::Status ProgramCache::Store(const std::string& key, std::span<const uint8_t> program) const {
  const std::string_view bytes(reinterpret_cast<const char*>(program.data()), program.size());
  return ReplaceFile(PathOf(key), {Header(key, program), bytes});
}

}  // namespace upscaled::opencl
