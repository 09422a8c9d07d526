// NatsQueue's operations on JetStream, a call of the broker's each.
#pragma once

#include <nats/nats.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/broker_url.h"
#include "server/jobs/job_queue.h"

namespace upscaled::server {

// A message of the work's stream. It is this client's until its term is over.
struct NatsWork {
  std::string job;
  std::string task;
  std::string labels;   // the text that AddWork was given; "": an older version added it
  uint64_t number = 0;  // in the stream
  absl::Time submitted;
  std::string reply_to;  // where NatsStreams::Answer goes
};

// The text of a job's record, and its version; 0: no record.
struct NatsRecord {
  std::string text;
  uint64_t revision = 0;
  absl::Time changed;
};

// The parts of a queue PREFIX: the stream PREFIX-due of work to be done, with each message kept
// until one of the consumer "workers" has acknowledged it; the key-value bucket PREFIX of jobs'
// records; the stream PREFIX-dead of dead letters. Existing ones are used as they are.
//
// Thread safe. A lost connection is made again. Errors are UNAVAILABLE, and INVALID_ARGUMENT for
// texts too long for the broker.
class NatsStreams {
 public:
  // Makes what is not there, or NOT_FOUND as `if_absent` says. INVALID_ARGUMENT for a prefix that
  // is no job's id (CheckJobId).
  static absl::StatusOr<std::unique_ptr<NatsStreams>> Open(const BrokerUrl& broker,
                                                           IfAbsent if_absent);

  // The number of the message; nullopt: there is one of this job.
  // `labels`, of one line, go with it.
  absl::StatusOr<std::optional<uint64_t>> AddWork(const std::string& job, const std::string& task,
                                                  const std::string& labels);
  // For all messages taken from now on, by any client: without a heartbeat in this time, it is due
  // again.
  absl::Status SetTerm(absl::Duration term);
  // The work due for longest; nullopt: none came due within 100 ms. Waits up to 10 s for the
  // broker.
  absl::StatusOr<std::optional<NatsWork>> TakeWork();
  // "+ACK", "+WPI" (a heartbeat) or "-NAK", with JetStream's texts behind these.
  absl::Status Answer(const std::string& reply_to, const std::string& answer);

  absl::StatusOr<NatsRecord> Read(const std::string& job);
  // Whether it was written: not when the record has another revision by now.
  absl::StatusOr<bool> Write(const std::string& job, const std::string& text, uint64_t revision);
  // Removes the record with all traces: one of revision 0 can be written.
  absl::Status Remove(const std::string& job);
  // Passes on all records, each by its job.
  absl::Status ReadAll(absl::FunctionRef<void(const std::string&, NatsRecord)> receive);

  // Replaces a record of the job.
  absl::Status AddDeadLetter(const std::string& job, const std::string& text);

 private:
  struct Deleter {
    void operator()(natsConnection* connection) const { natsConnection_Destroy(connection); }
    void operator()(jsCtx* context) const { jsCtx_Destroy(context); }
    void operator()(kvStore* store) const { kvStore_Destroy(store); }
  };

  explicit NatsStreams(std::string prefix) : prefix_(std::move(prefix)) {}
  absl::Status Connect(const BrokerUrl& broker);
  static absl::Status SetTls(const BrokerUrl& broker, natsOptions* options);
  // NOT_FOUND if there is no bucket of the prefix.
  absl::Status FindBucket(const BrokerUrl& broker);
  absl::Status MakeStreams();
  // The number of the message; nullopt: `options` expect something else.
  absl::StatusOr<std::optional<uint64_t>> Publish(const std::string& subject,
                                                  const std::string& text, jsPubOptions options,
                                                  const std::string& labels = "");

  const std::string prefix_;
  std::unique_ptr<natsConnection, Deleter> connection_;
  std::unique_ptr<jsCtx, Deleter> context_;
  std::unique_ptr<kvStore, Deleter> records_;
};

}  // namespace upscaled::server
