// The part of one body on the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"
#include "server/spool/body_budget.h"

namespace upscaled::server {

// A file of slots, each for a block and used again; it is cut to nothing when all are free. The
// caller serialises TakeSlot and ReturnSlot. A caller without returned slots may read and write on
// a thread of its own.
class SpoolFile : public std::enable_shared_from_this<SpoolFile> {
 public:
  explicit SpoolFile(std::shared_ptr<BodyBudget> budget, std::string payer = "")
      : budget_(std::move(budget)), payer_(std::move(payer)) {}
  // Closes the file among the budget's work for the disk: freeing its space may take long.
  ~SpoolFile();

  // None when the budget has no disk left for the payer.
  std::optional<size_t> TakeSlot();
  void ReturnSlot(size_t slot);

  // Among the budget's work, or on the caller's thread. SpoolError says why the disk does not take
  // it.
  absl::Status Write(size_t slot, std::span<const uint8_t> bytes);
  // Reads written bytes, at least one; INTERNAL if the disk does not give them back.
  absl::StatusOr<size_t> Read(size_t slot, size_t offset, std::span<uint8_t> dst) const;

 private:
  const std::shared_ptr<BodyBudget> budget_;
  const std::string payer_;
  UniqueFd fd_;  // set by the first Write
  size_t slots_ = 0;
  std::vector<size_t> free_;
};

}  // namespace upscaled::server
