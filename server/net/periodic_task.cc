#include "server/net/periodic_task.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "absl/cleanup/cleanup.h"

namespace upscaled::server {

struct PeriodicTask::State {
  State(boost::asio::io_context& context, absl::Duration interval, std::function<void()> work)
      : timer(context), interval(interval), work(std::move(work)) {}

  void Await() {
    timer.expires_after(absl::ToChronoNanoseconds(interval));
    timer.async_wait([this](boost::system::error_code error) {
      if (error || ended) return;
      const absl::Cleanup again = [this] { Await(); };
      work();
    });
  }

  boost::asio::steady_timer timer;
  const absl::Duration interval;
  const std::function<void()> work;
  bool ended = false;
};

PeriodicTask::PeriodicTask(IoThread& thread, absl::Duration interval, std::function<void()> work)
    : thread_(thread),
      state_(std::make_unique<State>(thread.context(), interval, std::move(work))) {
  thread_.Post([state = state_.get()] { state->Await(); });
}

PeriodicTask::~PeriodicTask() {
  thread_.RunAndWait([this] {
    state_->ended = true;
    state_->timer.cancel();
  });
  thread_.RunAndWait([] {});  // what was called back meanwhile has returned
}

}  // namespace upscaled::server
