// A thread to run an Asio context: all handlers of objects bound to it run there, one by one.
#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace boost::asio {
class io_context;
}

namespace upscaled::server {

// Blocks all signals in its thread.
class IoThread {
 public:
  // `name` as NameThread's. Throws std::system_error if the machine has no thread.
  explicit IoThread(const char* name = "io");
  // Stops and joins; waiting handlers are destroyed unrun. Not on the thread itself.
  ~IoThread();
  IoThread(const IoThread&) = delete;
  IoThread& operator=(const IoThread&) = delete;

  boost::asio::io_context& context() { return *context_; }
  // Runs `work` on the thread soon, in the order of the calls from all threads. Thread safe.
  void Post(std::function<void()> work);
  // Runs `work` on the thread and returns when it is done. Not on the thread itself, nor after
  // Stop.
  void RunAndWait(std::function<void()> work);
  // Ends the thread, as the destructor does; Post does nothing afterwards.
  void Stop();

 private:
  std::unique_ptr<boost::asio::io_context> context_;
  std::thread thread_;
};

}  // namespace upscaled::server
