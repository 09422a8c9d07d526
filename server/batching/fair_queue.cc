#include "server/batching/fair_queue.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace upscaled::server {
namespace {

// Cancelled tiles dropped by one Take, to keep it short. The cancellation drops them, too.
constexpr int64_t kMaxDroppedTiles = 1024;
// Remembered clients without open requests: they pay for their past work.
constexpr size_t kMaxAbsentClients = 1024;
// The least cost for judging a payer's place, in multiply-adds: a flow between two bands of its
// image has nothing queued. About 256 x 256 source pixels of general-2x.
constexpr int64_t kMinJudgedCost = 10'000'000'000;

// The first tile of the submission to run.
SubmittedTile Head(const std::shared_ptr<Submission>& submission) {
  return {submission,
          submission->put_back.empty() ? submission->next : submission->put_back.back()};
}

// A tile with a failed device or batch may be the reason for it. A slice of a row stream cannot run
// again after the failure of another tile.
bool RunsByItself(const SubmittedTile& tile) {
  return tile.moved() || tile.alone() || tile.task().slice.stream != nullptr;
}

double NextCost(const Flow& flow) { return static_cast<double>(Head(flow.queue.front()).cost()); }

// Cost given back, because the work did not run after all, leads to no earlier time than the
// present.
void ChargeOne(double& virtual_start, double charged, const VirtualTime& time) {
  virtual_start = std::max(virtual_start + charged, std::min(virtual_start, time.now()));
}

}  // namespace

void FairQueue::Append(const std::shared_ptr<Submission>& submission) {
  Flow& flow = *submission->flow;
  Enter(flow);
  int64_t cost = 0;
  for (const TileTask& tile : submission->tiles) cost += CostOf(tile);
  Detach(flow);
  submission->place = flow.queue.insert(flow.queue.end(), submission);
  Count(*submission, std::ssize(submission->tiles), cost);
  Attach(flow);
}

void FairQueue::PutBack(const SubmittedTile& tile) {
  Submission& submission = *tile.submission;
  Flow& flow = *submission.flow;
  Enter(flow);
  Detach(flow);
  if (submission.place.has_value()) {
    flow.queue.splice(flow.queue.begin(), flow.queue, *submission.place);
  } else {
    submission.place = flow.queue.insert(flow.queue.begin(), tile.submission);
  }
  submission.put_back.push_back(tile.index);
  Count(submission, 1, tile.cost());
  Charge(flow, -tile.cost());
  Attach(flow);
}

bool FairQueue::HasWorkFor(const Device& device, Priority last) const {
  const auto runs = [&](const auto& due) {
    return due.second->queue.front()->executable->On(device) != nullptr;
  };
  const auto orders = std::span(orders_).first(static_cast<size_t>(last) + 1);
  return std::ranges::any_of(orders, [&](const Order& order) {
    return std::ranges::any_of(
        order.due, [&](const auto& due) { return std::ranges::any_of(due.second->flows, runs); });
  });
}

FairQueue::Batch FairQueue::Take(const Device& device, int streams, int64_t max_cost,
                                 Priority last) {
  Batch batch;
  for (Order& order : orders_) {
    AdvanceTime(order);
    if (!batch.tiles.empty() || !batch.dropped.empty()) continue;
    if (&order > &orders_[static_cast<size_t>(last)]) continue;
    // A stream's share of the queue that ends all streams at about the same time (guided
    // self-scheduling, Polychronopoulos and Kuck 1987).
    const bool background = &order == &orders_[static_cast<size_t>(Priority::kBackground)];
    const int64_t max_tiles = background ? 1 : (order.queued_tiles + streams - 1) / streams;
    batch = TakeFrom(order, device, max_tiles, max_cost);
  }
  return batch;
}

FairQueue::Batch FairQueue::TakeFrom(const Order& order, const Device& device, int64_t max_tiles,
                                     int64_t max_cost) {
  Batch batch;
  const auto can_join = [&](const Flow& flow) {
    const std::shared_ptr<Submission>& head = flow.queue.front();
    const Executable* const executable = head->executable->On(device);
    if (batch.tiles.empty()) return executable != nullptr;
    if (RunsByItself(batch.tiles.front()) || RunsByItself(Head(head))) return false;
    return executable == batch.executable && std::ssize(batch.tiles) < max_tiles &&
           batch.cost + Head(head).cost() <= max_cost;
  };
  const auto next = [&]() -> Flow* {
    for (const auto& [client_due, client] : order.due) {
      for (const auto& [flow_due, flow] : client->flows) {
        if (can_join(*flow)) return flow;
      }
    }
    return nullptr;
  };
  while (std::ssize(batch.dropped) < kMaxDroppedTiles) {
    Flow* const flow = next();
    if (flow == nullptr) break;
    TakeTile(*flow, device, batch);
  }
  return batch;
}

void FairQueue::AdvanceTime(Order& order) {
  order.weight = 0;
  for (const auto& [due, client] : order.due) {
    const auto& [last_due, last] = *client->flows.rbegin();
    client->time.Advance(client->flows.begin()->first.first, last_due.first + NextCost(*last));
    order.weight += client->weight;
  }
  if (!order.due.empty()) {
    const auto& [last_due, last] = *order.due.rbegin();
    const double next = NextCost(*last->flows.begin()->second) / last->weight;
    order.time.Advance(order.due.begin()->first.first, last_due.first + next);
  }
  const bool crowded = order.clients.size() > order.due.size() + kMaxAbsentClients;
  std::erase_if(order.clients, [&](const auto& entry) {
    const std::shared_ptr<Client>& client = entry.second;
    return client.use_count() == 1 && (crowded || client->virtual_start <= order.time.now());
  });
}

void FairQueue::TakeTile(Flow& flow, const Device& device, Batch& batch) {
  const std::shared_ptr<Submission> submission = flow.queue.front();
  if (!submission->cancel_status().ok()) return Remove(*submission, batch.dropped);
  SubmittedTile tile = Head(submission);
  if (batch.tiles.empty()) batch.executable = submission->executable->On(device);
  Detach(flow);
  if (submission->put_back.empty()) {
    ++submission->next;
  } else {
    submission->put_back.pop_back();
  }
  Count(*submission, -1, -tile.cost());
  if (submission->queued_tiles() == 0) Leave(*submission);
  Charge(flow, tile.cost());
  Attach(flow);
  ++load_.running_tiles;
  batch.cost += tile.cost();
  batch.pixels += SourcePixelsOf(tile.task());
  batch.tiles.push_back(std::move(tile));
}

void FairQueue::Remove(Submission& submission, std::vector<SubmittedTile>& removed) {
  if (!submission.place.has_value()) return;
  Flow& flow = *submission.flow;
  const std::shared_ptr<Submission> owner = **submission.place;
  Detach(flow);
  Count(submission, -submission.queued_tiles(), -submission.queued_cost);
  Leave(submission);
  for (auto index = submission.put_back.rbegin(); index != submission.put_back.rend(); ++index) {
    removed.push_back({owner, *index});
  }
  submission.put_back.clear();
  while (submission.next < submission.tiles.size()) removed.push_back({owner, submission.next++});
  Attach(flow);
}

void FairQueue::Remove(Flow& flow, std::vector<SubmittedTile>& removed) {
  while (!flow.queue.empty()) Remove(*flow.queue.front(), removed);
}

SubmissionList FairQueue::Extract(Flow& flow) {
  SubmissionList queue;
  if (!flow.queue.empty()) {
    Detach(flow);
    flow.queue.swap(queue);
    Attach(flow);
    Count(flow, -flow.queued_tiles, -flow.queued_cost, {});
  }
  flow.client = nullptr;
  flow.virtual_start = 0;
  return queue;
}

void FairQueue::Insert(Flow& flow, SubmissionList queue) {
  if (queue.empty()) return;
  Enter(flow);
  Detach(flow);
  flow.queue.swap(queue);
  Attach(flow);
  Count(flow, flow.queued_tiles, flow.queued_cost, flow.queue.front()->submitted);
}

void FairQueue::Move(Flow& flow, FairQueue& to) { to.Insert(flow, Extract(flow)); }

void FairQueue::ChangePayer(Flow& flow, Payer payer) {
  SubmissionList queue = Extract(flow);
  flow.payer = std::move(payer);
  ++flow.payer_changes;
  Insert(flow, std::move(queue));
}

Payer FairQueue::BestPayer(const Flow& flow, std::span<const Payer> payers) const {
  const auto own = std::ranges::find(payers, flow.payer.name(), &Payer::name);
  const Payer* best = own == payers.end() ? nullptr : &*own;
  for (const Payer& payer : payers) {
    if (best == nullptr || RankWith(payer, flow) < RankWith(*best, flow)) best = &payer;
  }
  return best == nullptr ? flow.payer : *best;
}

std::pair<Priority, double> FairQueue::RankWith(const Payer& payer, const Flow& flow) const {
  const Order& order = orders_[static_cast<size_t>(payer.priority())];
  const auto known = order.clients.find(payer.name());
  double start = order.time.now();
  size_t flows = 1;  // with this one
  if (known != order.clients.end()) {
    const Client& client = *known->second;
    start = client.flows.empty() ? std::max(start, client.virtual_start) : client.virtual_start;
    const bool counted = flow.client == known->second && !flow.queue.empty();
    flows = client.flows.size() + (counted ? 0 : 1);
  }
  const auto cost = static_cast<double>(std::max(flow.queued_cost, kMinJudgedCost));
  return {payer.priority(), start + cost * static_cast<double>(flows) / payer.weight()};
}

absl::Duration FairQueue::Backlogged(Priority priority, absl::Time now) const {
  const Order& order = orders_[static_cast<size_t>(priority)];
  return order.queued_tiles == 0 ? absl::ZeroDuration() : now - order.backlogged_since;
}

std::vector<Flow*> FairQueue::flows() const {
  std::vector<Flow*> flows;
  for (const Order& order : orders_) {
    for (const auto& [client_due, client] : order.due) {
      for (const auto& [due, flow] : client->flows) flows.push_back(flow);
    }
  }
  return flows;
}

void FairQueue::Detach(Flow& flow) {
  OrderOf(flow).due.erase(DueOf(*flow.client));
  flow.client->flows.erase(DueOf(flow));
}

void FairQueue::Attach(Flow& flow) {
  Client& client = *flow.client;
  if (!flow.queue.empty()) client.flows[DueOf(flow)] = &flow;
  if (!client.flows.empty()) OrderOf(flow).due[DueOf(client)] = &client;
}

void FairQueue::Enter(Flow& flow) {
  Order& order = OrderOf(flow);
  if (flow.client == nullptr) {
    std::shared_ptr<Client>& client = order.clients[flow.payer.name()];
    if (client == nullptr) client = std::make_shared<Client>(Client{.id = ++last_client_});
    flow.client = client;
  }
  Client& client = *flow.client;
  client.weight = flow.payer.weight();
  if (client.flows.empty()) {
    client.virtual_start = std::max(client.virtual_start, order.time.now());
  }
  if (flow.queue.empty()) flow.virtual_start = std::max(flow.virtual_start, client.time.now());
}

void FairQueue::Charge(Flow& flow, int64_t cost) {
  if (flow.meter != nullptr) *flow.meter += cost;
  const auto charged = static_cast<double>(cost);
  Client& client = *flow.client;
  Order& order = OrderOf(flow);
  ChargeOne(flow.virtual_start, charged, client.time);
  client.time.Serve(charged / static_cast<double>(client.flows.size() + 1));
  ChargeOne(client.virtual_start, charged / client.weight, order.time);
  order.time.Serve(charged / std::max(order.weight, client.weight));
}

void FairQueue::Count(Submission& submission, int64_t tiles, int64_t cost) {
  submission.queued_cost += cost;
  submission.flow->queued_tiles += tiles;
  submission.flow->queued_cost += cost;
  Count(*submission.flow, tiles, cost, submission.submitted);
}

void FairQueue::Count(const Flow& flow, int64_t tiles, int64_t cost, absl::Time submitted) {
  load_.queued_tiles += tiles;
  load_.queued_cost += cost;
  Order& order = OrderOf(flow);
  if (order.queued_tiles == 0) order.backlogged_since = submitted;
  order.queued_tiles += tiles;
}

void FairQueue::Leave(Submission& submission) {
  submission.flow->queue.erase(*submission.place);
  submission.place.reset();
}

}  // namespace upscaled::server
