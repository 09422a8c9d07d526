// A model being uploaded into the repository: its files are hidden until they are whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"
#include "server/results/digest.h"
#include "upscale/v1/admin.pb.h"

namespace upscaled::server {

// One of its files. Thread compatible. Removes the file unless it was placed.
class IncomingFile {
 public:
  struct Announced {
    int64_t size_bytes = 0;
    std::string sha256;  // in hexadecimal, in lower case; empty: any
  };

  // `hidden` was created and is open as `fd`; `placed` is its name once it is whole.
  IncomingFile(Announced announced, std::filesystem::path placed, std::filesystem::path hidden,
               UniqueFd fd);
  IncomingFile(IncomingFile&& other) noexcept;
  ~IncomingFile();

  int64_t size_bytes() const { return announced_.size_bytes; }
  int64_t missing_bytes() const { return announced_.size_bytes - written_; }
  // At most `missing_bytes`. RESOURCE_EXHAUSTED: the disk has no room.
  absl::Status Write(std::string_view bytes);
  // After the last byte. INVALID_ARGUMENT: it is not the announced file.
  absl::Status Finish();
  const std::filesystem::path& hidden() const { return hidden_; }
  const std::filesystem::path& placed() const { return placed_; }
  const std::string& sha256() const { return sha256_; }  // in hexadecimal, after Finish

  // Gives the file its name. ALREADY_EXISTS.
  absl::Status Place();
  // Takes it back.
  void Withdraw();

 private:
  Announced announced_;
  std::filesystem::path placed_;
  std::filesystem::path hidden_;  // empty: there is none to remove
  UniqueFd fd_;
  int64_t written_ = 0;
  Sha256 hash_;
  std::string sha256_;
};

// Thread compatible. Removes unplaced files.
class ModelIntake {
 public:
  // Hidden files in `folder`: one, or a .param and its .bin. INVALID_ARGUMENT (kInvalidOption): a
  // name other than a plain name of a model's file, an invalid digest, a .param without a .bin or
  // another file with one; (kLimitExceeded): a file is larger than loaders take.
  // FAILED_PRECONDITION: the folder cannot be written to.
  static absl::StatusOr<ModelIntake> Open(const std::filesystem::path& folder,
                                          const upscale::v1::AddModelStart& start);

  // One file's bytes after the other's. INVALID_ARGUMENT: more bytes than were announced.
  absl::Status Write(std::string_view bytes);
  absl::Status Finish();
  // Where the model's bytes are, to be looked at after Finish.
  const std::filesystem::path& hidden() const { return files_.front().hidden(); }
  // After Finish.
  void Describe(upscale::v1::AddModelResponse& response) const;

  // Gives all files their names at once, so no reader sees a part of them, or leaves them hidden.
  // ALREADY_EXISTS.
  absl::Status Place();
  void Withdraw();

 private:
  explicit ModelIntake(std::vector<IncomingFile> files) : files_(std::move(files)) {}

  std::vector<IncomingFile> files_;
};

}  // namespace upscaled::server
