import { governanceLimits } from './governance-limits.ts'
import { mcpServerLimits } from './mcp-server-limits.ts'
import { modelProxyLimits } from './model-proxy-limits.ts'
import { peopleLimits } from './people-limits.ts'
import { policyLimits } from './policy-limits.ts'

/** Every bound the program keeps, in one place. A caller that passes one is refused with a clear error. */
export const limits = {
  /** One JSON-RPC message or HTTP body. */
  messageBytesMax: 4 * 1024 * 1024,
  /** Nesting of one message or body, the values in it, and the members of its objects; checked before it is parsed. */
  messageDepthMax: 64,
  messageValuesMax: 200_000,
  messageMembersMax: 25_000,
  /** Nesting of tool arguments. */
  argumentDepthMax: 32,
  /** Values in the arguments of one call, at all levels together: some work is done for each before a tool sees them. */
  argumentValuesMax: 20_000,
  /** The answer of one tool, as JSON text. */
  answerBytesMax: 8 * 1024 * 1024,
  /** Calls under way for one connection; more are answered ERR_BUSY. */
  callsInFlightPerConnectionMax: 1024,
  /** Write transactions that wait for a commit; more are answered ERR_BUSY. */
  writeQueueMax: 20_000,
  /** Write transactions in one commit. */
  commitBatchMax: 256,
  /** Read records that wait to be written; more make the caller wait. */
  readRecordsPendingMax: 8_192,
  /** Read records written in one commit, and in one log entry. */
  readRecordsBatchMax: 128,
  /** The text of a log entry for several reads; one that has more to say alone is an entry of its own. */
  readsEntryCharsMax: 128 * 1024,
  /** The longest time a read record waits before it is committed. */
  readRecordDelayMs: 50,
  toolListPageSize: 256,
  /**
   * HTTP sessions over all identities, and of one; past either, an idle one is ended to make room. So many are kept for operators
   * of this installation, and as many again for the local owner, whatever others have open.
   */
  httpSessionsMax: 1_000,
  httpSessionsPerIdentityMax: 100,
  httpSessionsReserved: 100,
  httpSessionIdleMs: 30 * 60_000,
  /** A session in which nothing came after `initialize`. */
  httpSessionUnusedMs: 60_000,
  /** Request line and headers of one HTTP request. */
  httpHeaderBytesMax: 16 * 1024,
  /** Time that a client has to send all headers, and the whole request; a slower one is answered 408. */
  httpHeadersTimeoutMs: 10_000,
  httpRequestTimeoutMs: 60_000,
  /** How often slow clients are looked for. */
  httpTimeoutCheckMs: 2_000,
  httpKeepAliveMs: 65_000,
  /** Connections over all, and those on which one key shows itself; so many stay for the owner, and for operators, as above. */
  httpConnectionsMax: 4_096,
  httpConnectionsPerKeyMax: 512,
  httpConnectionsReserved: 512,
  /** What is still read of a refused body, so that the client sees the refusal. */
  httpLingerMs: 1_000,
  /** How often the files of a TLS certificate are checked for a change. */
  tlsPollMs: 1_000,

  ...governanceLimits,
  ...peopleLimits,
  shutdownGraceMs: 5_000,
  exportPageMax: 1_000,
  metadataBytesMax: 65_536,
  /** One SKILL.md; a longer one is reported as a problem and skipped. */
  skillManifestBytesMax: 256 * 1024,
  skillFrontmatterCharsMax: 16 * 1024,
  skillDescriptionCharsMax: 2_048,
  skillCapabilitiesMax: 32,
  skillCapabilityCharsMax: 64,
  /** Skills read from one root; the rest are reported as a problem. */
  skillsPerRootMax: 500,
  /** What the skills extension of MCP allows for one skill: files, and bytes over all of them. */
  skillFilesMax: 512,
  skillBytesMax: 16 * 1024 * 1024,
  skillFileBytesMax: 2 * 1024 * 1024,
  skillFolderDepthMax: 8,
  /** An API key that is revoked by another process stops working within this time. */
  apiKeyCacheMs: 1_000,
  /** What a key has open or at work ends within this time of its end, whichever process revoked it. */
  keyReconcileMs: 500,
  apiKeyCacheMax: 1_000,
  /** `last_used_at` of a key is written at most this often. */
  apiKeyTouchMs: 60_000,
  apiKeyLifetimeMsMax: 3_660 * 24 * 3_600_000,
  /** Roles that one tenant makes for itself. */
  customRolesMax: 100,
  apiKeyListMax: 1_000,
  /** Calls that are answered later: over all callers, of one, kept for the owner, how long each is kept, and how often to look. */
  mcpTasksMax: 2_000,
  mcpTasksPerIdentityMax: 200,
  mcpTasksReserved: 200,
  mcpTaskTtlMs: 60 * 60_000,
  mcpTaskPollMs: 1_000,
  /** What a waiting tool waits that is told nothing. */
  waitSecondsDefault: 300,
  /** Running workflows among which those that wait for a person are looked for. */
  approvalsLookedAtMax: 5_000,
  /** How often an open stream of events says that it is there, and how long a reader may take nothing. */
  eventStreamKeepAliveMs: 15_000,
  eventStreamStallMs: 60_000,
  /** How often the latest time is saved in the store, and how far a clock is behind it before that is reported. */
  clockSavedMs: 60_000,
  clockBehindToldMs: 5_000,
  /** How long a SEAL session lasts, and how far the time in a signed call may be from ours. */
  sealSessionMs: 60 * 60_000,
  sealClockSkewMs: 30_000,
  /** A signed call is remembered for this long after its time has passed: a clock may be set back. */
  sealMessageRetentionMs: 5 * 60_000,
  /** Sessions that ended are told about for this long. */
  sealEndedSessionRetentionMs: 24 * 60 * 60_000,
  /** Past this many live sessions of one identity, the oldest is revoked. */
  sealSessionsPerIdentityMax: 100,
  sealSessionListMax: 200,
  /** Ended sessions and remembered calls are looked for this often. */
  sealSweepMs: 60_000,
  sealTaskSummaryCharsMax: 256,
  /** One secret, what is said of it, how many are listed, and how many a rotation encrypts in one transaction. */
  secretCharsMax: 64 * 1024,
  secretPurposeCharsMax: 200,
  secretListMax: 1_000,
  secretRotationBatch: 100,
  /** How long a link can be used, how long it is told apart from one that never was, and the values it takes. */
  secretLinkMs: 60 * 60_000,
  secretLinkRetentionMs: 24 * 60 * 60_000,
  secretLinkFieldsMax: 64,
  /** What a form of one of our pages may send, and connections to a port that serves nothing but such pages. */
  formBytesMax: 1024 * 1024,
  linkConnectionsMax: 64,
  ...mcpServerLimits,
  ...modelProxyLimits,
  ...policyLimits,
  /** Buckets of the rate limiter, over all callers and categories. */
  rateBucketsMax: 10_000,
  /** Commands in one exec_parallel, forks in one workspace_fork. */
  workspaceBatchMax: 20,
  /** Calls that wait for the same workspace to be free; more are answered ERR_BUSY. */
  workspaceQueueMax: 100,
  workspaceEnvVariablesMax: 256,
  workspaceDomainsMax: 256,
  /** Folders of the host in one workspace. */
  workspaceMountsMax: 8,
  workspaceEnvBytesMax: 128 * 1024,
  workspaceForwardsMax: 50,
  /** Names of what one owner, and one tenant, copied out of workspaces, with those of the folders on the way. */
  transferNamesPerOwnerMax: 5_000,
  transferNamesPerTenantMax: 20_000,
  workspaceStopGraceMs: 10_000,
  /** What runs in the workspaces of a key that is gone has so long to end by itself, and they are looked for so often. */
  workspaceEndGraceMs: 500,
  revokedOwnersReconcileMs: 1_000,
  /** Destroyed workspaces of one owner whose snapshots are kept for forks, and how long after the last snapshot. */
  archivedWorkspacesMax: 16,
  archivedWorkspaceMs: 7 * 24 * 3_600_000,
  /** Iterations of one execution, the latest, whose workspace is kept as it was then. */
  executionSnapshotsMax: 10,
  execTimeoutDefaultSecs: 120,
  execParallelTimeoutDefaultSecs: 300,
  execTimeoutSecsMax: 24 * 3600,
  execCommandCharsMax: 1024 * 1024,
  execOutputBytesDefault: 256 * 1024,
  /** Of each stream, in the answer of a tool that was not told: more than this is cut by clients, and not at its middle. */
  execDisplayedBytesDefault: 16 * 1024,
  execOutputBytesMax: 2 * 1024 * 1024,
  execProgressMs: 1_000,
  /** Commands of one workspace_prepare, and the time that each has. */
  prepareCommandsMax: 100,
  prepareTimeoutDefaultSecs: 300,
  /** Tasks of one swarm_run that are at work at once, and the time that each has. */
  swarmParallelDefault: 4,
  swarmTimeoutDefaultSecs: 600,
  swarmContextCharsMax: 1024 * 1024,
  /** One page of file_read; a larger file is read page by page. */
  fileReadBytesDefault: 256 * 1024,
  fileReadBytesMax: 1024 * 1024,
  /** A file of an execution, as a whole. */
  executionFileBytesMax: 4 * 1024 * 1024,
  /** What file_write takes in one call; larger content goes through file_transfer. */
  fileWriteCharsMax: 4_000_000,
  /** The largest file that file_edit rewrites. */
  fileEditBytesMax: 64 * 1024 * 1024,
  fileListEntriesMax: 10_000,
  /** A file that fs.read gives out or fs.edit changes, and the largest answer with one in it. */
  agentFileBytesMax: 10 * 1024 * 1024,
  agentFileAnswerBytesMax: 24 * 1024 * 1024,
  agentEditsMax: 200,
  /** A pattern of fs.grep or fs.glob. */
  agentPatternCharsMax: 4_096,
  /** What fs.grep and fs.glob answer at most, and how long they look; what is beyond is said to be left out. */
  agentMatchesMax: 2_000,
  agentMatchBytesMax: 1024 * 1024,
  agentGrepLineBytesMax: 1_000,
  agentSearchOutputBytesMax: 64 * 1024 * 1024,
  agentSearchMs: 20_000,
  webRedirectsMax: 10,
  /** Results of one web.search, and the time that one try of it has. */
  webResultsMax: 20,
  webSearchMs: 20_000,
  /** Arguments of cmd.run. */
  commandArgumentsMax: 1_000,
  /** A client's configuration file that `castellan import` reads. */
  importFileBytesMax: 4 * 1024 * 1024,
  /** One note of a vault. */
  vaultNoteBytesMax: 10 * 1024 * 1024,
  /** Text of a note in one call; the rest of the message needs space too. */
  vaultTextCharsMax: 3.5 * 1024 * 1024,
  vaultPathCharsMax: 1_024,
  /** Names in a path of a vault. */
  vaultFolderDepthMax: 32,
  /** Entries that one walk through a vault looks at; what is beyond is reported as left out. */
  vaultWalkMax: 200_000,
  vaultListMax: 5_000,
  vaultBatchMax: 10,
  /** Content of all notes of one batch together, so that the answer stays below its own bound. */
  vaultBatchBytesMax: 4 * 1024 * 1024,
  vaultFrontmatterCharsMax: 64 * 1024,
  vaultRecentMax: 100,
  vaultSearchResultsMax: 1_000,
  /** A search ends after this time with what it has. */
  vaultSearchMs: 20_000,
  /** A regular expression given by a caller: its characters, and its compiled size. */
  vaultPatternCharsMax: 1_024,
  vaultPatternSizeMax: 1_500,
  /** Of a longer line, a regular expression sees the beginning. */
  vaultPatternLineCharsMax: 8_192,
  /** Characters times size of the pattern: what one look for a match may cost, in a line and in a whole note. */
  vaultPatternLineWorkMax: 2_000_000,
  vaultPatternWorkMax: 20_000_000,
  /** A replacement by regular expression gives up after this time. */
  vaultReplaceMs: 5_000,
  /** A change that waits for a note which others are changing gives up after this time. */
  vaultLockWaitMs: 10_000,
  teamNameCharsMax: 64,
  teamSkillsMax: 32,
  teamTextCharsMax: 2_048,
  /** The budget of a team that names none. */
  teamVmsDefault: 10,
  /** Content of one message between the members of a team. */
  teamMessageBytesMax: 256 * 1024,
  teamMessageTypeCharsMax: 64,
  /** Messages that wait for one agent, and tasks whose results it has not received; more are refused. */
  teamInboxMax: 100,
  teamTasksMax: 100,
  /** Messages in one answer of `receive`; a longer inbox takes several calls. */
  teamReceiveMax: 100,
  /** Messages, and results, in one answer: for each of the two, as JSON. */
  teamReceiveBytesMax: 3 * 1024 * 1024,
  teamTaskIdCharsMax: 256,
  teamTaskTimeoutDefaultSecs: 300,
  /** Tasks that run at the same time in the workspace of one agent. */
  teamTasksRunningMax: 4,
  /** What is kept of each stream of a task, and at most as JSON. */
  teamTaskOutputBytes: 64 * 1024,
  teamTaskOutputJsonBytes: 256 * 1024,
  /** How soon after a change tasks are reconciled again, and how late at most while some are unfinished. */
  teamReconcileMsMin: 25,
  teamReconcileMsMax: 2_000,
  /** What is read of the output of one git command, unless it is a list of files or a diff. */
  gitOutputBytesMax: 4 * 1024 * 1024,
  gitFileListBytesMax: 32 * 1024 * 1024,
  gitDiffBytesDefault: 64 * 1024,
  gitDiffBytesMax: 1024 * 1024,
  /** Paths in one git_status, over all its lists. */
  gitStatusPathsMax: 5_000,
  /** Files that a refused merge lists. */
  gitConflictFilesMax: 500,
  /** A git command that does little; one that goes through a repository; a clone. */
  gitCommandTimeoutMs: 120_000,
  gitLongTimeoutMs: 30 * 60_000,
  gitCloneTimeoutMs: 60 * 60_000,
  gitPushTimeoutDefaultSecs: 120,
  gitPushTimeoutSecsMax: 3_600,
  gitMessageCharsMax: 64 * 1024,
  /** Sources of one workspace_merge, and commits that it replays of one source. */
  gitMergeSourcesMax: 100,
  gitMergeCommitsMax: 2_000,
  /** Branches and tags of a target that a source is told, so that it need not send what they have. */
  gitMergeTipsMax: 2_000,
  /** Names of agents in one tenant, and versions of one agent. */
  agentsMax: 10_000,
  agentVersionsMax: 1_000,
  /** Agents, or gateways, or proxies that one author has made; not counted for the local owner. */
  profilesOfAuthorMax: 1_000,
  profileNameCharsMax: 128,
  profileLabelsMax: 64,
  suggestedPromptsMax: 32,
  subAgentsMax: 64,
  /** Events in one page of an activity log. */
  logPageMax: 200,
  /** Semantic search: texts in one request, documents that a search embeds at most, vectors that are kept, and the answer of a service. */
  embeddingBatchMax: 64,
  embeddingDocumentsMax: 1_000,
  embeddingsCachedMax: 20_000,
  embeddingAnswerBytesMax: 32 * 1024 * 1024,
  /** How long a search of tools waits for the vector of its query before words decide. */
  toolSearchModelMs: 5_000,
  /** How long the vectors of all tools may take, where the configured model is not the one they were shipped for. */
  toolVectorsMs: 120_000,
  /** With more tools than this, those of other servers included, words alone decide. */
  toolsWithVectorsMax: 2_000,
  searchQueryCharsMax: 2_000,
  /** What should be written or done, in plain words. */
  intentCharsMax: 20_000,
  /** One manifest: its text, its values with aliases counted in full, and its nesting. */
  manifestCharsMax: 256 * 1024,
  manifestValuesMax: 10_000,
  manifestDepthMax: 32,
  /** Parsed manifests in memory, of agents and of workflows each: how many, and the characters of their texts together. */
  parsedManifestsMax: 1_000,
  parsedManifestCharsMax: 4 * 1024 * 1024,
  /** A regular expression of a manifest or of a schema in it: its characters, and its compiled size. */
  manifestPatternCharsMax: 1_024,
  manifestPatternSizeMax: 1_500,
  /** Characters times compiled size: what a validator's pattern, or the patterns of one schema, may cost on one output. */
  patternWorkMax: 20_000_000,
  /**
   * A JSON Schema that a caller supplies: its text; its values with those behind references counted again, for all schemas of a
   * manifest; how many values a pattern counts for at least; and the time to compile it and to check one value.
   */
  jsonSchemaCharsMax: 128 * 1024,
  jsonSchemaWorkMax: 3_000,
  jsonSchemaPatternWork: 20,
  jsonSchemaCompileMs: 1_000,
  jsonSchemaCheckMs: 250,
  /** Compiled schemas of tools of other servers that are cached. */
  upstreamSchemasCompiledMax: 500,
  /** How soon a step that the store did not take is handed in again. */
  runRetryMsMin: 50,
  runRetryMsMax: 2_000,
  /** How often the runs in a store that others also write to are reconciled. */
  runReconcileMs: 500,
  /** How often in a row a run is taken up after the server died, without anything coming of it. */
  runResumesMax: 3,
  /** Runs below runs. */
  runDepthMax: 3,
  /** Agents that hand a task on to one another, below the first; not counted among the runs below runs. */
  delegationDepthMax: 3,
  delegatedMessageCharsMax: 64 * 1024,
  /** The longest time that one call waits for the end of a run: clients give up after about a minute. */
  runWaitMsMax: 45_000,
  runListMax: 200,
  runEventsPageMax: 200,
  /** What is shown of one event's payload. */
  runEventBytesMax: 16 * 1024,
  /** A template of a prompt, and what it renders. */
  promptTemplateCharsMax: 128 * 1024,
  promptCharsMax: 1024 * 1024,
  /** What a later iteration is told of the output of an earlier one. */
  attemptCharsMax: 8 * 1024,
  /** What a later iteration is told of all earlier ones, in its prompt and in its environment; the newest come first. */
  attemptsCharsMax: 128 * 1024,
  attemptsBytesMax: 64 * 1024,
  /** Rounds of model and tools in one iteration. */
  modelRoundsMax: 50,
  /** What the model sees of one answer of a tool. */
  toolAnswerCharsMax: 64 * 1024,
  /** One file or page of spec.context, and files of one directory. */
  contextCharsMax: 64 * 1024,
  contextFilesMax: 50,
  /** Output of an iteration's process that is retained. */
  iterationOutputBytesMax: 1024 * 1024,
  /** States in one workflow. */
  workflowStatesMax: 100,
  /** What the states of one run leave to each other, as JSON. */
  workflowBlackboardCharsMax: 4 * 1024 * 1024,
  /** The time of a command of a workflow that names none, and what is kept of each of its streams. */
  workflowCommandTimeoutMs: 600_000,
  workflowOutputBytes: 1024 * 1024,
  /** How long a person is waited for where the workflow does not say. */
  workflowHumanTimeoutMs: 3_600_000,
  /** How often a run tries a tool that is busy. */
  workflowCallAttemptsMax: 6,
  /** Volumes that are copied to the workspace of another image, packed. */
  workflowVolumeBytesMax: 64 * 1024 * 1024,
  /** Runs of one owner that wait for their turn. */
  pendingRunsMax: 5_000,
  /** Runs that start each other without waiting. */
  spawnDepthMax: 10,
  /** The work of texts that are rendered together (see work-meter), and the text that one template may make. */
  textWorkUnitsMax: 16_000_000,
  /** One expression in {{ }} or of a condition, how many a template has, and how deep blocks and calls stand in each other. */
  expressionCharsMax: 4_000,
  templateExpressionsMax: 5_000,
  templateNestingMax: 32,
  templateCharsMax: 2 * 1024 * 1024,
} as const
