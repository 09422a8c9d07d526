// One request, with a test as its client.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "server/http/http_exchange.h"
#include "server/spool/spool.h"

namespace upscaled::server {

// The end of a request, for the sending test. Thread safe.
class FakeClient {
 public:
  // Present bytes of the body; `whole`: no more will come.
  void Send(const std::string& bytes, bool whole = true) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::function<void()> on_body;
    {
      absl::MutexLock lock(&mutex_);
      input_ += bytes;
      input_whole_ = whole;
      if (whole) std::swap(on_body, on_body_);
    }
    if (on_body != nullptr) on_body();
  }
  // Sends the first bytes of a fast body. It is read while it comes.
  void Stream(const std::string& bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    Send(bytes, /*whole=*/false);
    std::function<void()> on_body;
    {
      absl::MutexLock lock(&mutex_);
      std::swap(on_body, on_body_);
    }
    if (on_body != nullptr) on_body();
  }
  // Closes the connection.
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::function<void()> gone;
    {
      absl::MutexLock lock(&mutex_);
      std::swap(gone, on_gone_);
    }
    if (gone != nullptr) gone();
  }
  void AwaitEnd() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&over_));
  }
  // As Write sees it: everything after this many bytes waits.
  void TakeAtMost(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    max_output_ = bytes;
  }

  bool finished() const { return Locked(finished_); }  // the answer is whole
  bool begun() const { return Locked(begun_); }
  int status() const { return Locked(response_).status; }
  std::optional<uint64_t> length() const { return Locked(response_).length; }
  std::string body() const { return Locked(response_).body; }
  std::string Field(const std::string& name) const {
    const HttpResponse response = Locked(response_);
    return Find(response.fields, name);
  }
  std::string Trailer(const std::string& name) const { return Find(Locked(trailers_), name); }

 private:
  friend class FakeExchange;

  static std::string Find(const std::vector<HttpField>& fields, const std::string& name) {
    std::string values;
    for (const HttpField& field : fields) {
      if (field.name == name) absl::StrAppend(&values, values.empty() ? "" : ", ", field.value);
    }
    return values;
  }
  template <typename T>
  T Locked(const T& value) const ABSL_LOCKS_EXCLUDED(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    absl::MutexLock lock(&mutex_);
    return value;
  }

  mutable absl::Mutex mutex_;
  std::string input_ ABSL_GUARDED_BY(mutex_);
  bool input_whole_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status cancelled_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_gone_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_body_ ABSL_GUARDED_BY(mutex_);
  size_t max_output_ ABSL_GUARDED_BY(mutex_) = size_t{1} << 40;
  HttpResponse response_ ABSL_GUARDED_BY(mutex_);  // with the body so far
  std::vector<std::string> trailer_names_ ABSL_GUARDED_BY(mutex_);
  std::vector<HttpField> trailers_ ABSL_GUARDED_BY(mutex_);
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

class FakeExchange final : public HttpExchange {
 public:
  FakeExchange(HttpRequest request, std::shared_ptr<FakeClient> client)
      : request_(std::move(request)), client_(std::move(client)) {}
  ~FakeExchange() override {
    absl::MutexLock lock(&client_->mutex_);
    client_->on_gone_ = nullptr;
    client_->over_ = true;
  }

  const HttpRequest& request() const override { return request_; }

  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    FakeClient& c = *client_;
    absl::MutexLock lock(&c.mutex_);
    const auto ready = [&c]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex_) {
      return !c.input_.empty() || c.input_whole_ || !c.cancelled_.ok();
    };
    c.mutex_.Await(absl::Condition(&ready));
    if (!c.cancelled_.ok()) return c.cancelled_;
    const size_t count = std::min(dst.size(), c.input_.size());
    std::copy_n(c.input_.begin(), count, dst.begin());
    c.input_.erase(0, count);
    return count;
  }

  void OnBody(std::function<void()> ready) override {
    {
      absl::MutexLock lock(&client_->mutex_);
      if (!client_->input_whole_ && client_->cancelled_.ok()) {
        client_->on_body_ = std::move(ready);
        return;
      }
    }
    ready();
  }
  bool BodyBegun() const override {
    absl::MutexLock lock(&client_->mutex_);
    return !client_->input_.empty() || client_->input_whole_;
  }

  std::unique_ptr<BodySpool> MakeSpool() override {
    if (!spool_.has_value()) {
      const BodyBudgetOptions bodies{.spool_dir = testing::TempDir(),
                                     .spool_bytes = size_t{64} << 20};
      spool_.emplace(bodies, timer_.emplace());
    }
    return std::make_unique<BodySpool>(spool_->budget());
  }

  void Send(HttpResponse response) override {
    absl::MutexLock lock(&client_->mutex_);
    client_->response_ = std::move(response);
    client_->finished_ = true;
  }
  absl::Status Begin(HttpResponse response, const std::vector<std::string>& names) override {
    absl::MutexLock lock(&client_->mutex_);
    client_->response_ = std::move(response);
    client_->trailer_names_ = names;
    client_->begun_ = true;
    return absl::OkStatus();
  }
  absl::Status Write(std::span<const uint8_t> bytes) override {
    FakeClient& c = *client_;
    absl::MutexLock lock(&c.mutex_);
    const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex_) {
      return c.response_.body.size() + bytes.size() <= c.max_output_ || !c.cancelled_.ok();
    };
    c.mutex_.Await(absl::Condition(&ready));
    if (!c.cancelled_.ok()) return c.cancelled_;
    c.response_.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return absl::OkStatus();
  }
  absl::Status Settle() override {
    absl::MutexLock lock(&client_->mutex_);
    return client_->cancelled_;
  }
  void Finish(std::vector<HttpField> trailers) override {
    FakeClient& c = *client_;
    absl::MutexLock lock(&c.mutex_);
    const std::vector<std::string> names = c.trailer_names_;
    for (HttpField& trailer : trailers) {
      if (std::find(names.begin(), names.end(), trailer.name) == names.end()) continue;
      c.trailers_.push_back(std::move(trailer));
    }
    c.finished_ = true;
  }
  void Cancel(absl::Status reason) override {
    std::function<void()> on_body;
    {
      absl::MutexLock lock(&client_->mutex_);
      if (client_->cancelled_.ok()) client_->cancelled_ = std::move(reason);
      std::swap(on_body, client_->on_body_);
    }
    if (on_body != nullptr) on_body();
  }
  void OnGone(std::function<void()> callback) override {
    absl::MutexLock lock(&client_->mutex_);
    client_->on_gone_ = std::move(callback);
  }

 private:
  const HttpRequest request_;
  const std::shared_ptr<FakeClient> client_;
  std::optional<Timer> timer_;
  std::optional<Spool> spool_;  // since the first MakeSpool
};

}  // namespace upscaled::server
