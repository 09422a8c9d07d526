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

// Tiles of a request with recorded times.
inline constexpr size_t kMaxTileRuns = 64;

// The cost of one request's tiles so far.
struct RequestUsage {
  int64_t tiles = 0;     // computed ones; a tile on two devices counts once
  int64_t cost = 0;      // of these tiles, in multiply-adds
  absl::Duration queue;  // summed over these tiles
  absl::Duration infer;  // of all threads, summed over these tiles: a batch's is shared out by cost
  Interval queuing;      // from the first tile's Submit to the last one's start
  Interval running;      // from the first tile's start to the last one's end
  std::vector<Interval> tile_runs;   // of the first kMaxTileRuns tiles, in order of their ends
  std::vector<std::string> devices;  // of these tiles, in order of their first
};

// The queued and the running tiles. Costs are multiply-adds (CostOf).
struct TileLoad {
  int64_t queued_tiles = 0;
  int64_t queued_cost = 0;
  int64_t running_tiles = 0;
};

struct Flow;

// When something is due, in multiply-adds of service, and its number: the minimum goes first.
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
  double served_ = 0;  // to each, by the running tiles
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
  const std::shared_ptr<CostMeter> meter;      // null: it is not metered
  const std::shared_ptr<const Payers> payers;  // of all waiting clients; null: `payer` only
  std::atomic<int64_t> payer_changes = 0;      // how often `payer` was set
  DeviceExecutables executables;               // for its tiles, all on the same devices, best first
  int device_class = -1;                       // -1: bound to none yet
  bool keeps_class = false;                    // its tiles run on devices of this class only
  DeviceChooser::Binding binding;
  RequestUsage usage;
  absl::Time client_wait = absl::InfiniteFuture();  // begin of the present wait for its client
  absl::Duration client_waited;                     // before that, since the last Submit

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

  // Queues all tiles of the submission. Its flow and executable are set.
  void Append(const std::shared_ptr<Submission>& submission);
  // Queues a tile of a batch without a run again, before all others of its flow.
  void PutBack(const SubmittedTile& tile);
  // Looks at work of this or an earlier priority.
  bool HasWorkFor(const Device& device, Priority last = Priority::kBackground) const;
  // Takes the next tiles for the device, of no later priority than `last`: up to `max_cost` (a
  // larger one comes by itself), and no more than the share of one of `streams`. Background tiles
  // come one by one, so later tiles wait for one only. The tiles count as running until Ended.
  Batch Take(const Device& device, int streams, int64_t max_cost,
             Priority last = Priority::kBackground);
  void Ended(const Batch& batch) { load_.running_tiles -= std::ssize(batch.tiles); }
  // Moves the queued tiles to `removed`.
  void Remove(Submission& submission, std::vector<SubmittedTile>& removed);
  void Remove(Flow& flow, std::vector<SubmittedTile>& removed);
  // Takes the flow and its queued tiles to another queue, where it begins as a new one.
  void Move(Flow& flow, FairQueue& to);
  // Gives the flow and its queued tiles to `payer`, where it begins as a new one.
  void ChangePayer(Flow& flow, Payer payer);
  // Returns the payer with the earliest end of the flow's tiles: by priority, and then by the
  // client's virtual time after their service. Prefers the flow's own.
  Payer BestPayer(const Flow& flow, std::span<const Payer> payers) const;
  std::vector<Flow*> flows() const;  // with queued tiles
  const TileLoad& load() const { return load_; }
  // How long tiles of the priority have been queued without a break.
  absl::Duration Backlogged(Priority priority, absl::Time now) const;

 private:
  // The clients of one priority.
  struct Order {
    std::map<std::string, std::shared_ptr<Client>> clients;  // by name
    std::map<Due, Client*> due;                              // exactly those with queued tiles
    VirtualTime time;
    double weight = 0;  // of the clients in `due` at the last Take
    int64_t queued_tiles = 0;
    absl::Time backlogged_since;  // while tiles are queued: when the first of them were submitted
  };

  static Due DueOf(const Flow& flow) { return {flow.virtual_start, flow.id}; }
  static Due DueOf(const Client& client) { return {client.virtual_start, client.id}; }

  Order& OrderOf(const Flow& flow) { return orders_[static_cast<size_t>(flow.payer.priority())]; }

  // Take a flow out of the order while its due time changes, or its first or last tile comes.
  void Detach(Flow& flow);
  void Attach(Flow& flow);
  // Removes all tiles and the client of the flow; Insert queues them again.
  SubmissionList Extract(Flow& flow);
  void Insert(Flow& flow, SubmissionList queue);
  // As BestPayer compares it: lower is better.
  std::pair<Priority, double> RankWith(const Payer& payer, const Flow& flow) const;
  // Makes a flow without queued tiles due no earlier than now.
  void Enter(Flow& flow);
  void Charge(Flow& flow, int64_t cost);
  void Count(Submission& submission, int64_t tiles, int64_t cost);
  // Counts tiles of the flow, submitted then, as queued; negative: as queued no more.
  void Count(const Flow& flow, int64_t tiles, int64_t cost, absl::Time submitted);
  // Takes a submission without queued tiles out of its flow's queue.
  void Leave(Submission& submission);

  Batch TakeFrom(const Order& order, const Device& device, int64_t max_tiles, int64_t max_cost);
  // Sets the time at the beginning of a Take.
  static void AdvanceTime(Order& order);
  void TakeTile(Flow& flow, const Device& device, Batch& batch);

  std::array<Order, kPriorities> orders_;  // of an earlier priority first
  uint64_t last_client_ = 0;
  TileLoad load_;
};

}  // namespace upscaled::server
