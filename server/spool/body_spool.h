// A part of a body, kept until the rest of the body is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/spool/body_budget.h"
#include "server/spool/spool_file.h"

namespace upscaled::server {

// Bytes in a file of the budget, behind one block of memory. Does not wait for other bodies: those
// may wait for this one. Not thread safe; all calls run on the handler's thread, disk included.
class BodySpool {
 public:
  // Its disk is at the expense of `payer` (see BodyBudget).
  explicit BodySpool(std::shared_ptr<BodyBudget> budget, std::string payer = "");

  // RESOURCE_EXHAUSTED (kOverloaded) if the disk or the payer's share of it is full.
  // FAILED_PRECONDITION (kLimitExceeded) if the budget has no disk.
  absl::Status Append(std::span<const uint8_t> bytes);
  // Reads the appended bytes from the first one on, at least one; 0: their end. `dst` is not empty.
  // INTERNAL if the disk does not give them back.
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst);

 private:
  absl::Status WriteBlock();

  const std::shared_ptr<BodyBudget> budget_;
  const std::shared_ptr<SpoolFile> file_;
  std::vector<size_t> slots_;  // of whole blocks, in order
  std::vector<uint8_t> last_;  // the bytes behind those
  size_t read_ = 0;
};

}  // namespace upscaled::server
