// The outcomes of the tiles of a Submit.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/pipeline/tile_executor.h"
#include "tests/server/batching/gated_backend.h"

namespace upscaled::server {

inline std::vector<TileTask> NamedTiles(int first_name, int count, int pixels = 1) {
  std::vector<TileTask> tiles;
  for (int i = 0; i < count; ++i) tiles.push_back(NamedTile(first_name + i, pixels));
  return tiles;
}

// Collects the outcomes of the tiles of one Submit.
class Outcomes {
 public:
  explicit Outcomes(int tiles) : left_(tiles), statuses_(tiles) {}

  TileExecutor::TileDone done() {
    return [this](size_t index, const absl::Status& status) {
      absl::MutexLock lock(&mutex_);
      EXPECT_FALSE(statuses_[index].has_value()) << "tile " << index << " was done twice";
      statuses_[index] = status;
      --left_;
    };
  }
  void Await() {
    absl::MutexLock lock(&mutex_);
    const auto all = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return left_ == 0; };
    mutex_.Await(absl::Condition(&all));
  }
  int left() const {
    absl::MutexLock lock(&mutex_);
    return left_;
  }
  // OK for tiles before their end.
  std::vector<absl::Status> statuses() const {
    absl::MutexLock lock(&mutex_);
    std::vector<absl::Status> result;
    for (const auto& status : statuses_) result.push_back(status.value_or(absl::OkStatus()));
    return result;
  }

 private:
  mutable absl::Mutex mutex_;
  int left_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::optional<absl::Status>> statuses_ ABSL_GUARDED_BY(mutex_);
};

MATCHER_P2(IsStatus, code, message, "") {
  return arg.code() == code &&
         ::testing::ExplainMatchResult(::testing::HasSubstr(message), std::string(arg.message()),
                                       result_listener);
}

}  // namespace upscaled::server
