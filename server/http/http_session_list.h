// The connections of one HTTP server.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace upscaled::server {

// One connection. All functions run on the server's thread.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  virtual ~HttpSession() = default;
  // Looks at its request handler's progress.
  virtual void Advance() = 0;
  // Whether it is between two requests, or its request's body is still to come.
  virtual bool idle() const = 0;
  // Ends it at once and takes it out of its list. `evicted`: in favour of another connection.
  virtual void Close(bool evicted) = 0;
  // Ends it if it is idle, and stops waiting for a body: its call answers then, with an error.
  virtual void CloseIdle() {
    if (idle()) Close(/*evicted=*/false);
  }
};

// Owns the sessions until they are closed. A session waiting for its client, for a request or for
// the reading of an answer, may have to give its place to a new one. Not thread safe.
class HttpSessionList {
 public:
  struct Entry {
    std::shared_ptr<HttpSession> session;
    std::string host;  // the client's address without its port
    bool waits;
  };
  using Place = std::list<Entry>::iterator;

  // As a waiting one.
  Place Add(std::shared_ptr<HttpSession> session, std::string host);
  // Whether it waits for its client, from now on.
  void SetWaiting(Place place, bool waits);
  void Remove(Place place);

  // Closes the longest waiting session, of those of `host` if given; false: none waits.
  bool CloseLongestWaiting(std::optional<std::string_view> host);
  void CloseAll();
  // Closes the idle sessions, and calls `on_empty` when all have closed, perhaps at once.
  void CloseIdle(std::function<void()> on_empty);
  // Whether CloseIdle waits for the others.
  bool closing() const { return on_empty_ != nullptr; }

 private:
  std::list<Entry> sessions_;  // those that wait in the order in which they began to
  std::function<void()> on_empty_;
};

}  // namespace upscaled::server
