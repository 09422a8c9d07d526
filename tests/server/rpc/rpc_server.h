// gRPC calls of one method over a channel within the process.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "server/admission/admission.h"
#include "server/base/timer.h"
#include "server/calls/call_environment.h"
#include "server/rpc/call.h"
#include "server/rpc/completion_queues.h"
#include "server/spool/spool.h"
#include "tests/support/fake_clock.h"
#include "upscale/v1/upscale.grpc.pb.h"

namespace upscaled::server {

// Time stands still for its calls; its watchdog looks when LetTimePass has it look.
class RpcServer {
 public:
  RpcServer(Method method, const Limits& limits, int threads, size_t spool_bytes = 0,
            absl::Duration start_timeout = absl::Hours(1))
      : admission_(limits, int64_t{1} << 30, clock_),
        workers_(threads),
        spool_({.spool_dir = testing::TempDir(), .spool_bytes = spool_bytes}, timer_) {
    calls_.start_timeout = start_timeout;
    method.role = std::nullopt;
    const std::string path = method.path;
    methods_.emplace(path, std::move(method));
    grpc::ServerBuilder builder;
    builder.RegisterAsyncGenericService(&service_);
    queues_ = std::make_unique<CompletionQueues>(builder, /*queues=*/1);
    server_ = builder.BuildAndStart();
    for (int i = 0; i < 4; ++i) Call::Listen(host_, *queues_->queues().front());
    queues_->StartThreads(2);
    channel_ = server_->InProcessChannel({});
    stub_ = upscale::v1::UpscaleService::NewStub(channel_);
  }
  ~RpcServer() {
    calls_.registry.CancelAll(absl::UnavailableError("the test has ended"));
    server_->Shutdown(std::chrono::system_clock::now());
    calls_.registry.AwaitEmpty();
    server_.reset();
    queues_->Shutdown();
  }

  upscale::v1::UpscaleService::Stub& stub() { return *stub_; }
  const std::shared_ptr<grpc::Channel>& channel() { return channel_; }
  AdmissionController& admission() { return admission_; }
  // Keeps the disk busy until `go_on`. `go_on` must outlive the wait.
  void BlockDisk(absl::Notification& go_on) {
    spool_.budget()->RunOnDisk([&go_on] { go_on.WaitForNotification(); });
  }
  AdmissionState admission_state() const { return admission_.state(); }
  int64_t spool_bytes_in_use() const { return spool_.budget()->spool_bytes_in_use(); }
  void LetTimePass(absl::Duration time) {
    timer_clock_.Advance(time);
    timer_.Look();
  }
  // The codes of the ended calls, in order.
  std::vector<absl::StatusCode> ended() const {
    absl::MutexLock lock(&mutex_);
    return ended_;
  }

 private:
  FakeClock clock_;
  AdmissionController admission_;
  ThreadPool workers_;
  FakeClock timer_clock_;
  Timer timer_{timer_clock_};
  Watchdog watchdog_{timer_};
  CallRegistry registry_;
  mutable absl::Mutex mutex_;
  std::vector<absl::StatusCode> ended_ ABSL_GUARDED_BY(mutex_);
  CallEnvironment calls_{.admission = admission_,
                         .workers = workers_,
                         .timer = timer_,
                         .watchdog = watchdog_,
                         .registry = registry_,
                         .clock = clock_,
                         .on_finished =
                             [this](const RequestRecord& record) {
                               absl::MutexLock lock(&mutex_);
                               ended_.push_back(record.code);
                             },
                         .start_timeout = absl::Hours(1),
                         .stall_timeout = absl::Hours(1),
                         .peer = [](const std::string& name) { return PeerAddress{.name = name}; }};
  MethodTable methods_;
  grpc::AsyncGenericService service_;
  PendingCalls pending_{100, 100};
  Spool spool_;
  CallHost host_{calls_, methods_, service_, pending_, spool_.budget()};
  std::unique_ptr<CompletionQueues> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<upscale::v1::UpscaleService::Stub> stub_;
};

}  // namespace upscaled::server
