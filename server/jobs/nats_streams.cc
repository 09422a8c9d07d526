#include "server/jobs/nats_streams.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/jobs/job_queue.h"

namespace upscaled::server {
namespace {

constexpr char kConsumer[] = "workers";
constexpr int64_t kPatience_ms = 10'000;  // of a connection, and of each call
constexpr int64_t kReconnectWait_ms = 200;
// One message, now or within 100 ms. With "no_wait" instead, the broker forgets the loser of two
// requests for the last message.
constexpr char kNextRequest[] = R"({"batch": 1, "expires": 100000000})";  // in ns
// Without an answer for so long it is asked again: brokers lose messages that come while a client
// makes the consumer.
constexpr int64_t kAskAgain_ms = 2'000;
// The broker's own default is 1,000, with jobs before their next try.
constexpr int64_t kMaxUnacknowledged = 1'000'000'000;
// The field of a message's header.
constexpr char kLabels[] = "Upscale-Labels";
// Errors for an unexpected sequence; brokers since 2.12 give the second one.
constexpr int kWrongLastSequence[] = {JSStreamWrongLastSequenceErr, 10164};

struct Deleter {
  void operator()(natsOptions* options) const { natsOptions_Destroy(options); }
  void operator()(natsMsg* message) const { natsMsg_Destroy(message); }
  void operator()(natsSubscription* subscription) const { natsSubscription_Destroy(subscription); }
  void operator()(natsInbox* inbox) const { natsInbox_Destroy(inbox); }
  void operator()(jsPubAck* receipt) const { jsPubAck_Destroy(receipt); }
  void operator()(jsMsgMetaData* data) const { jsMsgMetaData_Destroy(data); }
  void operator()(kvEntry* entry) const { kvEntry_Destroy(entry); }
  void operator()(kvWatcher* watcher) const { kvWatcher_Destroy(watcher); }
};
template <typename T>
using Owned = std::unique_ptr<T, Deleter>;

absl::Status ToStatus(natsStatus status, absl::string_view what) {
  if (status == NATS_OK) return absl::OkStatus();
  const char* const details = nats_GetLastError(nullptr);
  const bool has_details = details != nullptr && *details != '\0';
  const std::string message =
      absl::StrCat("NATS: cannot ", what, ": ", has_details ? details : natsStatus_GetText(status));
  if (status == NATS_MAX_PAYLOAD) return absl::InvalidArgumentError(message);
  return absl::UnavailableError(message);
}

absl::Time TimeOf(int64_t unix_ns) { return absl::FromUnixNanos(unix_ns); }

// The job of a message: the last part of its subject.
std::string JobOf(const natsMsg* message) {
  const std::string subject = natsMsg_GetSubject(message);
  return subject.substr(subject.rfind('.') + 1);
}

// The meaning of a message from outside the stream: nullopt when nothing is due.
absl::StatusOr<std::optional<NatsWork>> WhyNoWork(natsMsg* message) {
  const char* status = nullptr;
  natsMsgHeader_Get(message, "Status", &status);
  const absl::string_view code = status == nullptr ? "" : status;
  if (code == "404" || code == "408") return std::nullopt;
  return absl::UnavailableError(absl::StrCat("NATS: no work is given out: status ", code));
}

// The answer; null: none came. Each question has an inbox of its own: to a lost one nothing is
// given out any more.
absl::StatusOr<Owned<natsMsg>> AskForWork(natsConnection* connection, const std::string& api) {
  natsInbox* created_inbox = nullptr;
  RETURN_IF_ERROR(ToStatus(natsInbox_Create(&created_inbox), "make an inbox"));
  const Owned<natsInbox> inbox(created_inbox);
  natsSubscription* subscribed = nullptr;
  RETURN_IF_ERROR(
      ToStatus(natsConnection_SubscribeSync(&subscribed, connection, inbox.get()), "subscribe"));
  const Owned<natsSubscription> subscription(subscribed);
  RETURN_IF_ERROR(ToStatus(
      natsConnection_PublishRequestString(connection, api.c_str(), inbox.get(), kNextRequest),
      "ask for work"));
  natsMsg* received = nullptr;
  const natsStatus status = natsSubscription_NextMsg(&received, subscription.get(), kAskAgain_ms);
  if (status == NATS_TIMEOUT) return nullptr;
  RETURN_IF_ERROR(ToStatus(status, "ask for work"));
  return Owned<natsMsg>(received);
}

NatsRecord RecordOf(kvEntry* entry) {
  return {.text = std::string(static_cast<const char*>(kvEntry_Value(entry)),
                              static_cast<size_t>(kvEntry_ValueLen(entry))),
          .revision = kvEntry_Revision(entry),
          .changed = TimeOf(kvEntry_Created(entry))};
}

}  // namespace

absl::StatusOr<std::unique_ptr<NatsStreams>> NatsStreams::Open(const BrokerUrl& broker,
                                                               IfAbsent if_absent) {
  if (!CheckJobId(broker.prefix).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the queue's prefix \"", broker.prefix,
                     "\" must be 1 to 64 letters, digits, - and _ in NATS"));
  }
  std::unique_ptr<NatsStreams> streams(new NatsStreams(broker.prefix));
  RETURN_IF_ERROR(streams->Connect(broker));
  if (if_absent == IfAbsent::kError) RETURN_IF_ERROR(streams->FindBucket(broker));
  RETURN_IF_ERROR(streams->MakeStreams());
  return streams;
}

absl::Status NatsStreams::SetTls(const BrokerUrl& broker, natsOptions* options) {
  RETURN_IF_ERROR(ToStatus(natsOptions_SetSecure(options, broker.tls), "use TLS"));
  // A broker may ask for TLS by itself.
  std::string name = broker.host;
  if (name.starts_with('[')) name = name.substr(1, name.size() - 2);
  return ToStatus(natsOptions_SetExpectedHostname(options, name.c_str()), "use TLS");
}

absl::Status NatsStreams::Connect(const BrokerUrl& broker) {
  natsOptions* created = nullptr;
  RETURN_IF_ERROR(ToStatus(natsOptions_Create(&created), "begin"));
  const Owned<natsOptions> options(created);
  const std::string place = absl::StrCat(broker.host, ":", broker.port);
  natsOptions_SetURL(options.get(), absl::StrCat("nats://", place).c_str());
  if (!broker.user.empty()) {
    natsOptions_SetUserInfo(options.get(), broker.user.c_str(), broker.password.c_str());
  }
  RETURN_IF_ERROR(SetTls(broker, options.get()));
  natsOptions_SetName(options.get(), "upscale");
  natsOptions_SetTimeout(options.get(), kPatience_ms);
  natsOptions_SetMaxReconnect(options.get(), -1);
  natsOptions_SetReconnectWait(options.get(), kReconnectWait_ms);
  natsOptions_SetFailRequestsOnDisconnect(options.get(), true);
  natsOptions_SetSendAsap(options.get(), true);
  natsConnection* connection = nullptr;
  RETURN_IF_ERROR(ToStatus(natsConnection_Connect(&connection, options.get()),
                           absl::StrCat("reach the broker at ", place)));
  connection_.reset(connection);
  jsOptions api;
  jsOptions_Init(&api);
  api.Wait = kPatience_ms;
  jsCtx* context = nullptr;
  RETURN_IF_ERROR(ToStatus(natsConnection_JetStream(&context, connection, &api), "use JetStream"));
  context_.reset(context);
  return absl::OkStatus();
}

absl::Status NatsStreams::FindBucket(const BrokerUrl& broker) {
  kvStore* found = nullptr;
  const natsStatus status = js_KeyValue(&found, context_.get(), prefix_.c_str());
  records_.reset(found);
  if (status != NATS_NOT_FOUND) return ToStatus(status, absl::StrCat("find the bucket ", prefix_));
  return NoSuchQueue(absl::StrCat(broker.tls ? "tls" : "nats", "://", broker.host, ":", broker.port,
                                  "/", prefix_));
}

absl::Status NatsStreams::MakeStreams() {
  const auto make = [this](const char* kind, jsRetentionPolicy retention) {
    const std::string name = absl::StrCat(prefix_, "-", kind),
                      subject = absl::StrCat(prefix_, ".", kind, ".*");
    const char* const subjects[] = {subject.c_str()};
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    config.Name = name.c_str();
    config.Subjects = const_cast<const char**>(subjects);
    config.SubjectsLen = 1;
    config.Retention = retention;
    config.MaxMsgsPerSubject = 1;
    jsErrCode error{};
    const natsStatus status = js_AddStream(nullptr, context_.get(), &config, nullptr, &error);
    if (error == JSStreamNameExistErr) return absl::OkStatus();  // set up in another way
    return ToStatus(status, absl::StrCat("make the stream ", name));
  };
  RETURN_IF_ERROR(make("due", js_WorkQueuePolicy));
  RETURN_IF_ERROR(make("dead", js_LimitsPolicy));

  kvStore* records = nullptr;
  natsStatus status = js_KeyValue(&records, context_.get(), prefix_.c_str());
  if (status == NATS_NOT_FOUND) {
    kvConfig config;
    kvConfig_Init(&config);
    config.Bucket = prefix_.c_str();
    status = js_CreateKeyValue(&records, context_.get(), &config);
  }
  records_.reset(records);
  return ToStatus(status, absl::StrCat("make the bucket ", prefix_));
}

absl::StatusOr<std::optional<uint64_t>> NatsStreams::Publish(const std::string& subject,
                                                             const std::string& text,
                                                             jsPubOptions options,
                                                             const std::string& labels) {
  natsMsg* created = nullptr;
  RETURN_IF_ERROR(ToStatus(natsMsg_Create(&created, subject.c_str(), nullptr, text.data(),
                                          static_cast<int>(text.size())),
                           "make a message"));
  const Owned<natsMsg> message(created);
  if (!labels.empty()) {
    RETURN_IF_ERROR(
        ToStatus(natsMsgHeader_Set(message.get(), kLabels, labels.c_str()), "label a message"));
  }
  jsPubAck* published = nullptr;
  jsErrCode error{};
  const natsStatus status =
      js_PublishMsg(&published, context_.get(), message.get(), &options, &error);
  if (std::ranges::count(kWrongLastSequence, static_cast<int>(error)) > 0) return std::nullopt;
  RETURN_IF_ERROR(ToStatus(status, absl::StrCat("write ", subject)));
  const Owned<jsPubAck> receipt(published);
  return receipt->Sequence;
}

absl::StatusOr<std::optional<uint64_t>> NatsStreams::AddWork(const std::string& job,
                                                             const std::string& task,
                                                             const std::string& labels) {
  jsPubOptions options;
  jsPubOptions_Init(&options);
  options.ExpectNoMessage = true;
  return Publish(absl::StrCat(prefix_, ".due.", job), task, options, labels);
}

absl::Status NatsStreams::SetTerm(absl::Duration term) {
  jsConsumerConfig config;
  jsConsumerConfig_Init(&config);
  config.Durable = kConsumer;
  config.AckPolicy = js_AckExplicit;
  config.AckWait = absl::ToInt64Nanoseconds(std::max(term, absl::Milliseconds(1)));
  config.MaxAckPending = kMaxUnacknowledged;
  return ToStatus(js_AddConsumer(nullptr, context_.get(), absl::StrCat(prefix_, "-due").c_str(),
                                 &config, nullptr, nullptr),
                  "make the consumer");
}

absl::StatusOr<std::optional<NatsWork>> NatsStreams::TakeWork() {
  const std::string api = absl::StrCat("$JS.API.CONSUMER.MSG.NEXT.", prefix_, "-due.", kConsumer);
  Owned<natsMsg> message;
  for (int64_t end_ms = kAskAgain_ms; message == nullptr; end_ms += kAskAgain_ms) {
    if (end_ms > kPatience_ms) return ToStatus(NATS_TIMEOUT, "ask for work");
    ASSIGN_OR_RETURN(message, AskForWork(connection_.get(), api));
  }
  if (natsMsg_GetReply(message.get()) == nullptr) return WhyNoWork(message.get());
  jsMsgMetaData* parsed = nullptr;
  RETURN_IF_ERROR(ToStatus(natsMsg_GetMetaData(&parsed, message.get()), "read a message"));
  const Owned<jsMsgMetaData> data(parsed);
  const char* labels = nullptr;
  natsMsgHeader_Get(message.get(), kLabels, &labels);
  return NatsWork{.job = JobOf(message.get()),
                  .task = std::string(natsMsg_GetData(message.get()),
                                      static_cast<size_t>(natsMsg_GetDataLength(message.get()))),
                  .labels = labels == nullptr ? "" : labels,
                  .number = data->Sequence.Stream,
                  .submitted = TimeOf(data->Timestamp),
                  .reply_to = natsMsg_GetReply(message.get())};
}

absl::Status NatsStreams::Answer(const std::string& reply_to, const std::string& answer) {
  natsMsg* confirmed = nullptr;
  const natsStatus status = natsConnection_RequestString(
      &confirmed, connection_.get(), reply_to.c_str(), answer.c_str(), kPatience_ms);
  const Owned<natsMsg> message(confirmed);
  return ToStatus(status, "answer for a message");
}

absl::StatusOr<NatsRecord> NatsStreams::Read(const std::string& job) {
  kvEntry* read = nullptr;
  const natsStatus status = kvStore_Get(&read, records_.get(), job.c_str());
  if (status == NATS_NOT_FOUND) return NatsRecord{};
  RETURN_IF_ERROR(ToStatus(status, absl::StrCat("read the record of job ", job)));
  const Owned<kvEntry> entry(read);
  return RecordOf(entry.get());
}

absl::StatusOr<bool> NatsStreams::Write(const std::string& job, const std::string& text,
                                        uint64_t revision) {
  jsPubOptions options;
  jsPubOptions_Init(&options);
  options.ExpectNoMessage = revision == 0;
  options.ExpectLastSubjectSeq = revision;
  // As kvStore_Update would, but kvStore_Update does not tell another revision from other errors.
  ASSIGN_OR_RETURN(const std::optional<uint64_t> written,
                   Publish(absl::StrCat("$KV.", prefix_, ".", job), text, options));
  return written.has_value();
}

absl::Status NatsStreams::Remove(const std::string& job) {
  const std::string subject = absl::StrCat("$KV.", prefix_, ".", job);
  jsOptions options;
  jsOptions_Init(&options);
  options.Wait = kPatience_ms;
  options.Stream.Purge.Subject = subject.c_str();
  return ToStatus(
      js_PurgeStream(context_.get(), absl::StrCat("KV_", prefix_).c_str(), &options, nullptr),
      absl::StrCat("remove the record of job ", job));
}

absl::Status NatsStreams::ReadAll(absl::FunctionRef<void(const std::string&, NatsRecord)> receive) {
  kvWatchOptions options;
  kvWatchOptions_Init(&options);
  options.IgnoreDeletes = true;
  kvWatcher* watches = nullptr;
  RETURN_IF_ERROR(
      ToStatus(kvStore_WatchAll(&watches, records_.get(), &options), "read the records"));
  const Owned<kvWatcher> watcher(watches);
  while (true) {
    kvEntry* next = nullptr;
    RETURN_IF_ERROR(
        ToStatus(kvWatcher_Next(&next, watcher.get(), kPatience_ms), "read the records"));
    if (next == nullptr) return absl::OkStatus();  // those were all
    const Owned<kvEntry> entry(next);
    receive(kvEntry_Key(entry.get()), RecordOf(entry.get()));
  }
}

absl::Status NatsStreams::AddDeadLetter(const std::string& job, const std::string& text) {
  jsPubOptions options;
  jsPubOptions_Init(&options);
  return Publish(absl::StrCat(prefix_, ".dead.", job), text, options).status();
}

}  // namespace upscaled::server
