import { z } from 'zod'
import type { Timing } from '../../contract/timing.ts'
import type { Json, JsonObject } from '../../kernel/canonical-json.ts'
import { cronProblem } from '../manifests/check-cron.ts'
import { quoted } from '../manifests/findings.ts'
import { loosely, type Notes } from '../manifests/present-spelling.ts'
import { isFields } from '../manifests/read-yaml.ts'
import { anything, filled, flag, group, listOf, number, oneOf, rule, whole } from '../manifests/schema-keywords.ts'
import { exactVersion, wholeVersion } from '../manifests/versions.ts'
import { volumeName } from './container-schemas.ts'
import { forReaders, issue, reservedKeys, texts } from './schema-words.ts'
import { states } from './state-schemas.ts'

/**
 * The manifest of a workflow. Parsing, the types and the published JSON Schema, which has current spellings only, all come from
 * this schema. References between its parts (targets, names, volumes) are checked afterwards.
 */
const API_VERSION = '100monkeys.ai/v1'

const map = (description: string) => anything(description).transform((value) => value as JsonObject)

const metadata = group(
  {
    name: filled(256, '1 to 63 of a–z, 0–9 and "-".').regex(
      /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/,
      rule('must be 1 to 63 of a–z, 0–9 and "-", with a letter or digit at both ends'),
    ),
    version: loosely(filled(64, 'Semantic version.').default('1.0.0'), { read: readVersion }),
    description: z.string(rule('must be a string')).max(10_000).default('').describe('What it does; search reads it.'),
    labels: texts('For filters.').default({}),
    annotations: texts('For readers.').default({}),
    tags: forReaders(z.array(z.string())),
    input_schema: map('JSON Schema of the input of a run.').optional(),
    output_schema: map('JSON Schema whose property types the rendered output gets.').optional(),
    output_template: map('The output of a run; strings in it are templates.').optional(),
  },
  'Who the workflow is.',
)

/** `1.0` and `v1` are completed to semantic versions. */
function readVersion(value: unknown, { warn, error }: Notes): unknown {
  if (value === undefined) {
    warn('is absent; 1.0.0 is used')
    return '1.0.0'
  }
  if (typeof value !== 'string') return value
  const exact = exactVersion(value)
  if (exact !== undefined) return exact
  const whole = wholeVersion(value.trim())
  if (whole === undefined) error(`${quoted(value)} is not a semantic version; write one such as 1.0.0`)
  else warn(`is read as ${whole}; write that`)
  return whole ?? value
}

const storageClass = oneOf(['ephemeral', 'persistent'], 'A persistent one outlives the run.')

const workspace = group(
  {
    storage_class: storageClass.default('ephemeral'),
    ttl_hours: number(
      0.001,
      8_784,
      'The files are removed after this time, even while the run waits for a person; a later state finds none.',
    ).optional(),
    size_limit_mb: whole(1, 1_048_576, 'Size at most.').optional(),
    volume_id: filled(128, 'An existing workspace to work in.').optional(),
    blackboard_key: filled(64, 'Where the id of the workspace is put.')
      .refine((key) => !reservedKeys.includes(key), rule('is one of the run’s own names; choose another'))
      .default('workspace_volume_id'),
  },
  'The workspace of the run.',
).superRefine(({ storage_class, ttl_hours, volume_id }, context) => {
  if (ttl_hours === undefined || (storage_class === 'ephemeral' && volume_id === undefined)) return
  const problem = 'belongs to ephemeral workspaces that the run makes itself; leave it out'
  context.addIssue({ ...issue(problem), path: ['ttl_hours'] })
})

const sharedVolume = loosely(
  group(
    {
      name: volumeName('Name of the volume.'),
      storage_class: storageClass.default('ephemeral'),
      size_limit_bytes: z
        .int(rule('must be a whole number'))
        .min(1, rule('must be at least 1'))
        .optional()
        .describe('Size at most.'),
    },
    'A volume that states share.',
  ),
  { read: (value) => (typeof value === 'string' ? { name: value } : value) },
).transform(({ name, storage_class, size_limit_bytes }) => ({
  name,
  storageClass: storage_class,
  sizeLimitBytes: size_limit_bytes ?? null,
}))
export type SharedVolume = Readonly<z.output<typeof sharedVolume>>

const storage = group(
  {
    workspace: workspace.prefault({}),
    shared_volumes: listOf(sharedVolume, 200, 'Volumes that states share.').default([]),
  },
  'Where the files of a run are.',
)

const oldVolume = loosely(group({ name: volumeName('Name.'), persistent: z.boolean().default(false) }, 'A volume.'), {
  read(value) {
    const { name, persistent } = isFields(value) ? value : { name: value }
    return { name, persistent: persistent === true }
  },
})
const oldVolumes = loosely(
  listOf(oldVolume, 200, 'The older spelling of storage.shared_volumes.').default([]).meta({ deprecated: true }),
  {
    read(value, { warn }) {
      if (Array.isArray(value) && value.length > 0) warn('is an old spelling; write storage.shared_volumes')
      return value
    },
  },
)

type Written = Readonly<{ storage?: z.output<typeof storage> | undefined; volumes: z.output<typeof oldVolumes> }>

/** A legacy volume named `workspace` is the workspace of the run. */
function storageOf({ storage: written, volumes }: Written) {
  const { workspace: own, shared_volumes: shared } = written ?? storage.parse({})
  const isRetained = volumes.some(({ name, persistent }) => name === 'workspace' && persistent)
  return {
    /** Whether the manifest declares storage at all. If so, agents work in the workspace of the run. */
    isDeclared: written !== undefined,
    workspace: {
      storageClass: isRetained ? ('persistent' as const) : own.storage_class,
      /** Null means the lifetime of the run. */
      ttlHours: own.ttl_hours ?? null,
      sizeLimitMb: own.size_limit_mb ?? null,
      /** An existing workspace to work in, by id or name. A run never destroys it. */
      volumeId: own.volume_id ?? null,
      blackboardKey: own.blackboard_key,
    },
    sharedVolumes: [
      ...shared,
      ...volumes
        .filter(({ name }) => name !== 'workspace')
        .map(({ name, persistent }): SharedVolume => {
          return { name, storageClass: persistent ? 'persistent' : 'ephemeral', sizeLimitBytes: null }
        }),
    ],
  }
}
export type Storage = Readonly<ReturnType<typeof storageOf>>

const schedule = group(
  {
    cron: filled(256, 'When the workflow starts by itself, as the user that registered it.'),
    timezone: filled(64, 'IANA name.').default('UTC'),
    jitter_seconds: whole(0, 86_400, 'Maximum random delay of a start.').default(0),
    enabled: loosely(flag(false, 'If false, the schedule is only a suggestion.'), {
      read(value, { warn }) {
        if (value === undefined) {
          warn('is absent, so the schedule is only a suggestion and starts nothing; write enabled: true to activate it')
        }
        return value
      },
    }),
    overlap: oneOf(['skip', 'queue', 'allow'], 'What happens if the previous run has not ended.').default('skip'),
    missed: oneOf(['skip', 'once'], 'Whether one run is started for those that were missed.').default('once'),
    input: z
      .union([z.string(), z.record(z.string(), z.unknown())], rule('must be an object or a string'))
      .optional()
      .describe('Input of the scheduled runs; a string is their intent.'),
  },
  'When the workflow runs by itself.',
)
  .superRefine(({ cron, timezone }, context) => {
    const wrong = cronProblem(cron, timezone)
    if (wrong !== undefined) context.addIssue({ ...issue(wrong.problem), path: [wrong.field] })
  })
  .transform(({ jitter_seconds, input, ...rest }): Timing => {
    return { type: 'cron', ...rest, input: (input ?? null) as Json, jitterMs: jitter_seconds * 1_000 }
  })

const spec = loosely(
  group(
    {
      initial_state: filled(64, 'Where a run begins.'),
      states,
      context: map('Constants on the blackboard.').default({}),
      max_total_transitions: whole(1, 100, 'Maximum number of transitions of a run.').default(50),
      storage: storage.optional(),
      volumes: oldVolumes,
      default_schedule: schedule.optional(),
    },
    'What the workflow does.',
  ),
  {
    renamed: {
      start_state: 'initial_state',
      initial: 'initial_state',
      schedule: 'default_schedule',
      max_transitions: 'max_total_transitions',
    },
  },
)

export const workflowManifestSchema = loosely(
  group(
    {
      apiVersion: z.literal(API_VERSION, rule(`must be ${API_VERSION}`)),
      kind: loosely(z.literal('Workflow', rule('must be Workflow; for an agent use the tools for agents')), {
        read(value, { warn }) {
          if (value === 'Workflow' || !/^workflow(?:manifest)?$/i.test(String(value))) return value
          warn('is an old spelling; write Workflow')
          return 'Workflow'
        },
      }),
      metadata,
      spec,
    },
    'Manifest of a workflow.',
  ),
  { renamed: { api_version: 'apiVersion' } },
).transform(({ metadata: head, spec: body }) => ({
  name: head.name,
  /** A semantic version. */
  version: head.version,
  description: head.description,
  labels: head.labels,
  annotations: head.annotations,
  inputSchema: head.input_schema ?? null,
  outputSchema: head.output_schema ?? null,
  outputTemplate: head.output_template ?? null,
  initialState: body.initial_state,
  /** In the order of the text. */
  states: body.states,
  context: body.context,
  maxTotalTransitions: body.max_total_transitions,
  storage: storageOf(body),
  /** The schedule on which it starts automatically, as the user that registered it. */
  defaultSchedule: body.default_schedule ?? null,
}))

/** A parsed workflow: defaults filled in, durations in milliseconds, sizes in bytes. */
export type WorkflowManifest = Readonly<z.output<typeof workflowManifestSchema>>

export const workflowManifestJsonSchema = (): Readonly<Record<string, unknown>> => {
  const { $schema, ...rest } = z.toJSONSchema(workflowManifestSchema, {
    io: 'input',
    // Shared parts of states have an id, so that each is written once; JSON Schema has no such keyword.
    override({ jsonSchema }) {
      delete jsonSchema.id
    },
  })
  return { $schema, title: 'Workflow manifest, version 1', ...rest }
}

export type { JudgeRef, ParallelAgent } from './agent-schemas.ts'
export type { ContainerStep, VolumeMount } from './container-schemas.ts'
export type {
  AgentState,
  ContainerRunState,
  HumanState,
  ParallelAgentsState,
  ParallelContainerRunState,
  State,
  StateKind,
  SubworkflowState,
  SystemState,
} from './state-schemas.ts'
export type { Condition } from './transition-schema.ts'
