import { z } from 'zod'
import { limits } from '../../contract/limits.ts'
import { fields, params } from '../params.ts'

export const workspaceParams = {
  workspaceId: z.string().min(1).max(128).describe('Workspace id or name.'),
  name: z.string().min(1).max(128),
  command: z.string().min(1).max(limits.execCommandCharsMax).describe('Shell command, run by /bin/sh -c.'),
  workdir: z
    .string()
    .min(1)
    .max(4096)
    .describe('Directory to run in, absolute. Left out: the one that the image names, else /workspace.'),
  env: z
    .record(z.string().max(128), z.string().max(limits.workspaceEnvBytesMax))
    .describe('Variables for this command; they win over those of set_env.'),
  outputBytes: z
    .int()
    .min(1)
    .max(limits.execOutputBytesMax)
    .default(limits.execDisplayedBytesDefault)
    .describe(
      'Bytes kept of each stream; of more, the beginning and the end. For large output write a file and use file_read.',
    ),
  timeoutSecs: (fallback: number) =>
    z
      .int()
      .min(1)
      .max(limits.execTimeoutSecsMax)
      .default(fallback)
      .describe('Seconds after which it is ended, with all its children.'),
  path: z.string().min(1).max(4096).describe('Absolute path in the workspace.'),
  port: z.int().min(1).max(65_535),
  allowedDomains: z.array(z.string().min(1).max(255)).max(limits.workspaceDomainsMax),
} as const

export const workspaceFields = {
  state: params.workspaceState,
  ip: z.string().describe('Address in the network of workspaces; empty until it has one.'),
  message: z.string().describe('What happened, in a sentence.'),
  resources: z.strictObject({ vcpus: z.int(), memory_mb: z.int(), disk_gb: z.int() }),
  forward: z.strictObject({ host_port: z.int(), guest_port: z.int() }),
  policy: {
    allow_internet: z.boolean(),
    allow_inter_vm: z.boolean(),
    allowed_ports: z.array(z.int()),
    allowed_domains: z.array(z.string()),
  },
  refused: z
    .array(
      z.strictObject({
        host: z.string().describe('As it was asked for.'),
        reason: z.string().describe('Such as host-not-allowed: add it to allowed_domains if it should be reached.'),
        count: z.int(),
        last_at: fields.time,
      }),
    )
    .describe('What was refused of late on the way to the hosts of allowed_domains, the newest first.'),
  lineage: z.strictObject({
    source_workspace_id: z.string(),
    source_workspace_name: z.string(),
    snapshot_name: z.string(),
  }),
  snapshot: z.strictObject({
    id: z.string(),
    name: z.string(),
    has_memory: z.boolean(),
    parent: z.string().nullable().describe('Name of the snapshot that it descends from.'),
    bytes: z.int().describe('Disk space of its own.'),
    current: z.boolean().describe('The present state descends from it.'),
    created_at: fields.time,
    created_by: z.string(),
  }),
  job: {
    job_id: z.int(),
    command: z.string().nullable().describe('Its beginning; null for jobs of earlier versions.'),
    running: z.boolean(),
    exit_code: z.int().nullable().describe('128 and the number of the signal when one ended it; null while it runs.'),
    signal_name: z.string().nullable(),
    timed_out: z.boolean(),
    started_at: fields.time,
    ended_at: fields.time.nullable(),
  },
  row: {
    workspace_id: z.string(),
    name: z.string(),
    state: params.workspaceState,
    ip: z.string(),
    owned: z.boolean().describe('Whether it is yours.'),
    orphaned: z.boolean().describe('Whether its owner is gone, so that it can be adopted.'),
    owner: z.string(),
    team: z.string().nullable(),
    resources: z.strictObject({ vcpus: z.int(), memory_mb: z.int(), disk_gb: z.int() }),
    created_at: fields.time,
  },
  /** How a command ended. */
  outcome: {
    exit_code: z.int().describe('128 and the number of the signal when one ended it.'),
    signal: z.string().nullable(),
    stdout: z.string(),
    stderr: z.string(),
    stdout_bytes: z.int().describe('All that was printed, kept or not.'),
    stderr_bytes: z.int(),
    truncated: z.boolean().describe('Whether a line in the middle says how many bytes were left out.'),
    timed_out: z.boolean(),
    limits_hit: z
      .array(z.enum(['memory', 'processes']))
      .describe('Limits of the workspace that ended a process, or kept one from beginning, meanwhile.'),
    duration_ms: z.int(),
  },
} as const
