// Queues tiles for the devices of one class. Divides service between payers by weight, then
// between the requests of each payer: start-time fair queueing (Goyal et al. 1996) at both
// levels. A tile's length is its cost in multiply-adds. Tiles of one request keep their order of
// submission. Background tiles run only while no other tile waits.
//
// Operations on a submission or a flow move all its tiles as a unit. The queue visits only the
// tiles it hands out, however many are queued.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "engine/base/interval.h"
#include "server/base/payer.h"
#include "server/base/payers.h"
#include "server/batching/submission.h"
#include "server/devices/device.h"
#include "server/devices/device_chooser.h"
#include "server/devices/device_executable.h"

namespace upscaled::server {

// Tiles of a request of which it is known when they ran.
inline constexpr size_t kMaxTileRuns = 64;

// The cost of one request's tiles so far.
struct RequestUsage {
  int64_t tiles = 0;     // that were computed; a tile that moved counts once
  int64_t cost = 0;      // of these tiles, in multiply-adds
  absl::Duration queue;  // summed over these tiles
  absl::Duration infer;  // of all threads, summed over these tiles: a batch's is shared out by cost
  Interval queuing;      // from the first tile's Submit to the last one's start
  Interval running;      // from the first tile's start to the last one's end
  std::vector<Interval> tile_runs;   // of the first kMaxTileRuns tiles, in order of their ends
  std::vector<std::string> devices;  // that computed them, in order of their first
};

// The tiles that are queued or running. Costs are multiply-adds (CostOf).
struct TileLoad {
  int64_t queued_tiles = 0;
  int64_t queued_cost = 0;
  int64_t running_tiles = 0;
};

struct Flow;

// The service, in multiply-adds, at which something is due, and its number: the minimum goes first.
using Due = std::pair<double, uint64_t>;

// Virtual time: the average service each sharer has had, in multiply-adds. Advances by the
// service given, divided by the number of sharers, but never beyond the end of the last sharer's
// next work. A newcomer therefore queues behind earlier ones in the end, however many newcomers
// arrive.
class VirtualTime {
 public:
  double now() const { return now_; }
  void Serve(double each) { served_ += each; }
  // `first`: when the first of them is due; `end`: when the last one will have had its next.
  void Advance(double first, double end) {
    now_ = std::clamp(now_ + std::exchange(served_, 0), first, end);
  }

 private:
  double now_ = 0;
  double served_ = 0;  // to each, by what is running
};

// One payer's requests in one queue.
struct Client {
  uint64_t id = 0;
  double weight = 1;
  double virtual_start = 0;    // when its next tile is due among the clients
  VirtualTime time;            // of its requests
  std::map<Due, Flow*> flows;  // exactly those with queued tiles
};

// One request's tiles.
struct Flow {
  Flow(uint64_t flow_id, Payer its_payer, std::shared_ptr<CostMeter> its_meter = nullptr,
       std::shared_ptr<const Payers> its_payers = nullptr)
      : id(flow_id),
        payer(std::move(its_payer)),
        meter(std::move(its_meter)),
        payers(std::move(its_payers)) {}

  const uint64_t id;
  Payer payer;                                 // FairQueue::ChangePayer sets another one
  const std::shared_ptr<CostMeter> meter;      // null: nobody wants to know
  const std::shared_ptr<const Payers> payers;  // of all who wait for it; null: `payer` waits only
  std::atomic<int64_t> payer_changes = 0;      // how often `payer` was set
  DeviceExecutables executables;  // that its tiles may be of, all on the same devices, best first
  int device_class = -1;          // that it is bound to; -1: not yet
  bool keeps_class = false;       // its tiles run on devices of this class only
  DeviceChooser::Binding binding;
  RequestUsage usage;
  absl::Time client_wait = absl::InfiniteFuture();  // since when its client is waited for
  absl::Duration client_waited;                     // before that, since it last submitted tiles

  // The queue's.
  std::shared_ptr<Client> client;  // null: has queued nothing there
  double virtual_start = 0;        // when its next tile is due among the client's
  SubmissionList queue;
  int64_t queued_tiles = 0;
  int64_t queued_cost = 0;
};

// Not thread safe. Flows with queued tiles must be kept alive by these.
class FairQueue {
 public:
  // Tiles of one executable of one device.
  struct Batch {
    std::vector<SubmittedTile> tiles;
    std::vector<SubmittedTile> dropped;  // cancelled ones met on the way
    int64_t cost = 0;
    int64_t pixels = 0;  // of the source, without halos
    const Executable* executable = nullptr;
  };

  // All tiles of the submission, whose flow and executable are set.
  void Append(const std::shared_ptr<Submission>& submission);
  // A tile of a batch that did not run after all, before all others of its flow.
  void PutBack(const SubmittedTile& tile);
  // Looks at work of this or an earlier priority.
  bool HasWorkFor(const Device& device, Priority last = Priority::kBackground) const;
  // The tiles of up to `max_cost` that are due for the device (a larger one comes by itself), and
  // no more than one stream's share when there are `streams`; of no later priority than `last`.
  // Background tiles come one by one, so that what is submitted meanwhile waits for one alone. They
  // count as running until Ended.
  Batch Take(const Device& device, int streams, int64_t max_cost,
             Priority last = Priority::kBackground);
  void Ended(const Batch& batch) { load_.running_tiles -= std::ssize(batch.tiles); }
  // Takes out what is queued, and adds it to `removed`.
  void Remove(Submission& submission, std::vector<SubmittedTile>& removed);
  void Remove(Flow& flow, std::vector<SubmittedTile>& removed);
  // Takes the flow and its queued tiles to another queue, where it begins as a new one.
  void Move(Flow& flow, FairQueue& to);
  // Gives the flow and its queued tiles to `payer`, where it begins as a new one.
  void ChangePayer(Flow& flow, Payer payer);
  // Returns the payer with whom the flow's tiles would be done first: by priority, and then by the
  // virtual time at which that client would have had the service of them. Prefers the flow's own.
  Payer BestPayer(const Flow& flow, std::span<const Payer> payers) const;
  std::vector<Flow*> flows() const;  // with queued tiles
  const TileLoad& load() const { return load_; }
  // For which tiles of the priority have been queued without a break.
  absl::Duration Backlogged(Priority priority, absl::Time now) const;

 private:
  // The clients of one priority.
  struct Order {
    std::map<std::string, std::shared_ptr<Client>> clients;  // by name
    std::map<Due, Client*> due;                              // exactly those with queued tiles
    VirtualTime time;
    double weight = 0;  // of those who were due at the last Take
    int64_t queued_tiles = 0;
    absl::Time backlogged_since;  // while tiles are queued: when the first of them were submitted
  };

  static Due DueOf(const Flow& flow) { return {flow.virtual_start, flow.id}; }
  static Due DueOf(const Client& client) { return {client.virtual_start, client.id}; }

  Order& OrderOf(const Flow& flow) { return orders_[static_cast<size_t>(flow.payer.priority())]; }

  // A flow that is due later or earlier, or has queued its first or last tile, is out of the order
  // meanwhile.
  void Detach(Flow& flow);
  void Attach(Flow& flow);
  // Removes all tiles of the flow, which has no client from now on; Insert queues them again.
  SubmissionList Extract(Flow& flow);
  void Insert(Flow& flow, SubmissionList queue);
  // As BestPayer compares it: lower is better.
  std::pair<Priority, double> RankWith(const Payer& payer, const Flow& flow) const;
  // Makes it due no earlier than now if it has nothing queued.
  void Enter(Flow& flow);
  void Charge(Flow& flow, int64_t cost);
  void Count(Submission& submission, int64_t tiles, int64_t cost);
  // Counts tiles of the flow, submitted then, as queued; negative: as queued no more.
  void Count(const Flow& flow, int64_t tiles, int64_t cost, absl::Time submitted);
  // Takes a submission that has nothing queued any more out of its flow's queue.
  void Leave(Submission& submission);

  Batch TakeFrom(const Order& order, const Device& device, int64_t max_tiles, int64_t max_cost);
  // To that of the Take that begins.
  static void AdvanceTime(Order& order);
  void TakeTile(Flow& flow, const Device& device, Batch& batch);

  std::array<Order, kPriorities> orders_;  // of an earlier priority first
  uint64_t last_client_ = 0;
  TileLoad load_;
};

}  // namespace upscaled::server
