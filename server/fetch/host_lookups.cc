#include "server/fetch/host_lookups.h"

#include <netdb.h>
#include <netinet/in.h>

#include <exception>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/status_macros.h"
#include "engine/base/steady_wait.h"
#include "engine/base/thread_name.h"
#include "server/fetch/address_kind.h"

namespace upscaled::server {
namespace {

struct AddressListDeleter {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

}  // namespace

absl::StatusOr<HostAddresses> LookUpHost(const std::string& host) {
  const addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  const std::unique_ptr<addrinfo, AddressListDeleter> owner(found);
  if (error != 0) return absl::NotFoundError(gai_strerror(error));
  HostAddresses addresses;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    std::string text = AddressText(*at->ai_addr);
    if (!text.empty()) addresses.push_back(std::move(text));
  }
  if (addresses.empty()) return absl::NotFoundError("no address of the internet");
  return addresses;
}

struct HostLookups::State {
  struct Lookup {
    std::optional<absl::StatusOr<HostAddresses>> result;
  };

  explicit State(Function look_up) : look_up(std::move(look_up)) {}

  // On a thread of its own.
  void Run(const std::string& host, Lookup& lookup) ABSL_LOCKS_EXCLUDED(mutex) {
    NameThread("look-up");
    absl::StatusOr<HostAddresses> result = absl::ResourceExhaustedError("");
    try {
      result = look_up(host);
    } catch (const std::exception&) {  // no memory
    }
    absl::MutexLock lock(&mutex);
    lookup.result = std::move(result);
    running.erase(host);
    ended.NotifyAll();
  }

  const Function look_up;
  absl::Mutex mutex;  // guards the results, too
  SteadyCondition ended;
  std::map<std::string, std::shared_ptr<Lookup>> running ABSL_GUARDED_BY(mutex);
};

HostLookups::HostLookups(Function look_up) : state_(std::make_shared<State>(std::move(look_up))) {}

absl::StatusOr<HostAddresses> HostLookups::Find(const std::string& host, absl::Duration timeout,
                                                Cancellation& cancellation) {
  State& state = *state_;
  const Cancellation::Registration on_cancel = cancellation.OnCancel([&state] {
    absl::MutexLock lock(&state.mutex);  // not between a look at the cancellation and the wait
    state.ended.NotifyAll();
  });
  absl::MutexLock lock(&state.mutex);
  std::shared_ptr<State::Lookup>& running = state.running[host];
  if (running == nullptr) {
    auto lookup = std::make_shared<State::Lookup>();
    std::thread([state = state_, host, lookup] { state->Run(host, *lookup); }).detach();
    running = std::move(lookup);
  }
  const std::shared_ptr<State::Lookup> lookup = running;
  const auto over = [&] { return lookup->result.has_value() || cancellation.IsCancelled(); };
  const bool in_time = state.ended.Await(state.mutex, timeout, over);
  RETURN_IF_ERROR(cancellation.status());
  if (!in_time) return absl::DeadlineExceededError("the look-up takes too long");
  return *lookup->result;
}

}  // namespace upscaled::server
