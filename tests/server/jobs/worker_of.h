// A worker's part, for tests of submitters.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "server/jobs/sqlite_queue.h"
#include "server/jobs/task.h"
#include "tests/client/temp_folder.h"

namespace upscaled::server {

// Takes jobs from the queue in a folder, and ends them as it is told.
class WorkerOf {
 public:
  explicit WorkerOf(const std::filesystem::path& folder) : queue_(*SqliteQueue::Open(folder)) {}

  JobQueue& queue() { return *queue_; }
  // The job with the longest wait.
  LeasedJob Take() {
    const auto job = queue_->Lease(absl::Minutes(1));
    EXPECT_TRUE(job.ok() && job->has_value()) << job.status();
    return job.ok() && job->has_value() ? **job : LeasedJob();
  }
  static Task TaskOf(const LeasedJob& job) {
    const auto task = ParseTask(job.task);
    EXPECT_TRUE(task.ok()) << task.status();
    return task.value_or(Task());
  }
  // Leaves `result` where the job wants it, under a content address of no meaning.
  void Complete(const LeasedJob& job, const std::string& result) {
    client::WriteText(TaskOf(job).output, result);
    EXPECT_TRUE(queue_->Complete(job, R"({"result": "abc123.png", "computed": true})").ok());
  }
  void Fail(const LeasedJob& job, const std::string& report) {
    EXPECT_TRUE(queue_->Fail(job, report).ok());
  }

 private:
  const std::unique_ptr<JobQueue> queue_;
};

}  // namespace upscaled::server
