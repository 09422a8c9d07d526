#include "server/net/io_thread.h"

#include <signal.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/synchronization/notification.h"
#include "engine/base/thread_name.h"

namespace upscaled::server {
namespace {

void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

// Until the context is stopped, or a handler has found no memory: the others go on.
void RunSome(boost::asio::io_context& context) {
  try {
    context.run();
  } catch (const std::exception&) {
  }
}

}  // namespace

IoThread::IoThread(const char* name)
    // With a hint of 1, posts of the thread itself would run after other threads' posts in the
    // meantime.
    : context_(std::make_unique<boost::asio::io_context>()),
      thread_([name, context = context_.get()] {
        BlockSignals();
        NameThread(name);
        const auto work = boost::asio::make_work_guard(*context);
        while (!context->stopped()) RunSome(*context);
      }) {}

IoThread::~IoThread() { Stop(); }

void IoThread::Post(std::function<void()> work) { boost::asio::post(*context_, std::move(work)); }

void IoThread::RunAndWait(std::function<void()> work) {
  absl::Notification done;
  Post([&] {
    const absl::Cleanup notify = [&done] { done.Notify(); };
    work();
  });
  done.WaitForNotification();
}

void IoThread::Stop() {
  if (!thread_.joinable()) return;
  context_->stop();
  thread_.join();
}

}  // namespace upscaled::server
