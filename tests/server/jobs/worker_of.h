// A worker's part, for tests of those who submit.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/jobs/sqlite_queue.h"
#include "client/jobs/task.h"
#include "client/retry.h"
#include "gtest/gtest.h"
#include "tests/client/temp_folder.h"

namespace upscaled::server {

// Takes jobs from the queue in a folder, and ends them as it is told.
class WorkerOf {
 public:
  explicit WorkerOf(const std::filesystem::path& folder)
      : queue_(*client::SqliteQueue::Open(folder, client::RetryClock::Real())) {}

  client::JobQueue& queue() { return *queue_; }
  // The job that waits for longest.
  client::LeasedJob Take() {
    const auto job = queue_->Lease(absl::Minutes(1));
    EXPECT_TRUE(job.ok() && job->has_value()) << job.status();
    return job.ok() && job->has_value() ? **job : client::LeasedJob();
  }
  static client::Task TaskOf(const client::LeasedJob& job) {
    const auto task = client::ParseTask(job.task);
    EXPECT_TRUE(task.ok()) << task.status();
    return task.value_or(client::Task());
  }
  // Leaves `result` where the job wants it, under a content address of no meaning.
  void Complete(const client::LeasedJob& job, const std::string& result) {
    client::WriteText(TaskOf(job).output, result);
    EXPECT_TRUE(queue_->Complete(job, R"({"result": "abc123.png", "computed": true})").ok());
  }
  void Fail(const client::LeasedJob& job, const std::string& report) {
    EXPECT_TRUE(queue_->Fail(job, report).ok());
  }

 private:
  const std::unique_ptr<client::JobQueue> queue_;
};

}  // namespace upscaled::server
