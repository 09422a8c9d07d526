// A file on its way into the model repository, hidden until it is whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"
#include "server/results/digest.h"
#include "upscale/v1/admin.pb.h"

namespace upscaled::server {

// Thread compatible. Removes what it has not placed.
class ModelIntake {
 public:
  // A hidden file in `folder`. INVALID_ARGUMENT (kInvalidOption): a name that is no plain one of a
  // model's file, a digest that is none; (kLimitExceeded): the file is larger than loaders take.
  // FAILED_PRECONDITION: the folder cannot be written to.
  static absl::StatusOr<ModelIntake> Open(const std::filesystem::path& folder,
                                          const upscale::v1::AddModelStart& start);
  ModelIntake(ModelIntake&& other) noexcept;
  ~ModelIntake();

  // INVALID_ARGUMENT: more bytes than were announced. RESOURCE_EXHAUSTED: the disk has no room.
  absl::Status Write(std::string_view bytes);
  // After the last byte. INVALID_ARGUMENT: it is not the file that was announced.
  absl::Status Finish();
  // Where the bytes are, to be looked at after Finish.
  const std::filesystem::path& hidden() const { return hidden_; }
  const std::string& sha256() const { return sha256_; }  // in hexadecimal, after Finish

  // Gives the file its name, where nobody sees a part of it. ALREADY_EXISTS.
  absl::Status Place();
  // Takes it back.
  void Withdraw();

 private:
  ModelIntake(const upscale::v1::AddModelStart& start, std::filesystem::path placed,
              std::filesystem::path hidden, UniqueFd fd);

  int64_t size_bytes_;
  std::string pinned_;  // empty: any digest
  std::filesystem::path placed_;
  std::filesystem::path hidden_;  // empty: there is none to remove
  UniqueFd fd_;
  int64_t written_ = 0;
  Sha256 hash_;
  std::string sha256_;
};

}  // namespace upscaled::server
