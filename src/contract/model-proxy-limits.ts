/** What bounds requests to models that pass through a proxy. They carry images and documents, so they may be large. */
export const modelProxyLimits = {
  modelRequestBytesMax: 32 * 1024 * 1024,
  modelRequestDepthMax: 128,
  modelRequestValuesMax: 1_000_000,
  /** An answer that comes as a whole, and one event of a stream or what is held of it until a call is judged. */
  modelAnswerBytesMax: 64 * 1024 * 1024,
  modelEventBytesMax: 8 * 1024 * 1024,
  /** What of the beginning of a conversation it is known by. */
  conversationBeginningCharsMax: 32 * 1024,
  /** Stored answers to which later requests may refer. */
  responseChainsMax: 10_000,
  /** The name of a tool in a decision, as a model wrote it. */
  judgedToolCharsMax: 128,
  /** Connections to one upstream. More requests wait. */
  modelConnectionsMax: 512,
  modelConnectMs: 10_000,
  modelKeepAliveMs: 30_000,
  /** A proxy that is edited in another process is seen as before for at most this long. */
  modelProxyCacheMs: 1_000,
  modelProxyCacheMax: 1_000,
  /** Of a body that is kept: what is looked at, what is stored of it, and how much of all of them may wait to be written. */
  interactionBodyReadMax: 1024 * 1024,
  interactionBodyCharsMax: 256 * 1024,
  interactionBodiesPendingMax: 32 * 1024 * 1024,
  /** What callers say of themselves, and names of models. */
  interactionLabelCharsMax: 128,
  interactionModelCharsMax: 256,
  /** What rules said of one: a history of many results has one each, and the first tell why. */
  interactionDecisionsMax: 100,
  /** How often old interactions are looked for, and how many are removed in one transaction. */
  interactionPruneMs: 600_000,
  interactionPruneMax: 1_000,
  /** Spans that wait for a collector, those sent together, and the longest time that the first of them waits. */
  otlpPendingMax: 4_096,
  otlpBatchMax: 512,
  otlpDelayMs: 1_000,
  /** Time for an answer of the collector, and what is read of it. */
  otlpTimeoutMs: 10_000,
  otlpAnswerBytesMax: 64 * 1024,
  /** How often spans are sent; the pause doubles each time, and a collector that asks for one gets at most this. */
  otlpTriesMax: 6,
  otlpRetryMs: 1_000,
  otlpRetryMaxMs: 30_000,
  /** Time for what is left when the program ends. */
  otlpCloseMs: 3_000,
  /** Keys for models that one author has at a time, how many are listed, and what one is for. */
  virtualKeysOfAuthorMax: 500,
  virtualKeyListMax: 1_000,
  virtualKeyGrantsMax: 100,
  /** Wrong keys from one network: how many in a minute are answered at once, how late the others are, and how many wait at a time. */
  keyFailuresPerMinuteMax: 10,
  keyFailureDelayMs: 500,
  keyFailuresWaitingMax: 200,
  keyFailureNetworksMax: 10_000,
} as const
