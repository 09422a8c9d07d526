// Divides the processor's cores between decoders: as many compute at a time as there are turns.
// Clients share the turns by time, however many images each of them sends: start-time fair queueing
// (Goyal et al. 1996). A client's own decoders take turns in order of arrival.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace upscaled::server {

// Thread safe; must outlive its places.
class DecodeTurns {
 public:
  // A computing decoder looks this often whether it must yield.
  static constexpr absl::Duration kSlice = absl::Milliseconds(5);

  DecodeTurns(int turns, const Clock& clock) : clock_(clock), free_turns_(turns) {}

  // Returns the number of decoders waiting for a turn.
  size_t waiting() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Client;

 public:
  // One decoder among the others. Not thread safe, except Cancel.
  class Place {
   public:
    // `weight`: of the client's share, relative to others'.
    Place(DecodeTurns& turns, const std::string& client, double weight = 1);
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place();

    // Waits for a turn. False: it has none, because it is cancelled.
    bool Begin() ABSL_LOCKS_EXCLUDED(turns_.mutex_);
    // Charges the turn's time so far. Returns whether another decoder is due before this one.
    bool MustYield() ABSL_LOCKS_EXCLUDED(turns_.mutex_);
    // Charges the rest and gives the turn to the next one. Does nothing without a turn.
    void End() ABSL_LOCKS_EXCLUDED(turns_.mutex_);
    // Ends its waits for good.
    void Cancel() ABSL_LOCKS_EXCLUDED(turns_.mutex_);

    // Returns the charged time of all its turns.
    absl::Duration time() const { return time_; }

   private:
    friend class DecodeTurns;
    void Charge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(turns_.mutex_);

    DecodeTurns& turns_;
    Client* client_ = nullptr;
    absl::Time charged_until_;
    absl::Duration time_;
    bool has_turn_ = false;
    bool is_cancelled_ = false;
    bool is_awake_ = false;  // has a turn or is cancelled
  };

 private:
  struct Client {
    double weight = 1;
    double served_s = 0;  // virtual: seconds of turns by weight
    int places = 0;
    int running = 0;
    std::list<Place*> waiting;
  };

  Client* Enter(const std::string& name, double weight) ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave(Client& client) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the due client; null: no decoder waits.
  Client* Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Hands out the free turns.
  void Grant() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  mutable absl::Mutex mutex_;
  int free_turns_ ABSL_GUARDED_BY(mutex_);
  double virtual_now_s_ ABSL_GUARDED_BY(mutex_) = 0;
  // Without decoders, only clients beyond their share.
  std::map<std::string, Client> clients_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
