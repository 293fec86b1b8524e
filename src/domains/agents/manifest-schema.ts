import { z } from 'zod'
import { outputHandlerSchema } from '../manifests/output-handler.ts'
import {
  anything,
  cpu,
  duration,
  flag,
  group,
  jsonSchema,
  listOf,
  oneOf,
  rule,
  size,
  text,
  textMap,
  whole,
} from '../manifests/schema-keywords.ts'
import { durationMs, millicores, sizeBytes } from '../manifests/units.ts'
import { executionSchema } from './execution-schema.ts'

/**
 * The agent manifest as written. Parsing and the published JSON Schema both come from it. Objects are strict, so that unknown
 * fields are noticed; the parser turns those into warnings.
 */
const AGENT_SCHEMA_KEY = 'agent/manifest/v1'
export const MANIFEST_API_VERSION = '100monkeys.ai/v1'

const namePattern = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/
const semverPattern =
  /^(?:0|[1-9]\d{0,8})\.(?:0|[1-9]\d{0,8})\.(?:0|[1-9]\d{0,8})(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-.]+)?$/

const metadata = group(
  {
    name: text(63, 'Name of the agent: a-z, 0-9 and hyphens, a letter or digit at both ends.').regex(
      namePattern,
      rule('must be 1 to 63 of a-z, 0-9 and hyphens, with a letter or digit at both ends'),
    ),
    version: text(128, 'Semantic version, as a string.').regex(
      semverPattern,
      rule('must be a semantic version such as "1.0.0"'),
    ),
    description: z
      .string(rule('must be a string'))
      .max(4_096)
      .default('')
      .describe('What the agent does; search reads it.'),
    labels: textMap(256, 'Labels to find it by.').default({}),
    annotations: textMap(4_096, 'Notes of any kind.').default({}),
  },
  'Who the agent is.',
)

const runtime = group(
  {
    language: text(32, 'Language of a standard runtime; with version, instead of image.').optional(),
    version: text(32, 'Version of the language, as a string.').optional(),
    image: text(512, 'Image instead of language and version; contains a slash.').optional(),
    image_pull_policy: oneOf(['Always', 'IfNotPresent', 'Never'], 'When an image is fetched.').default('IfNotPresent'),
    isolation: oneOf(['inherit', 'firecracker', 'docker', 'process'], 'Kind of isolation.').default('inherit'),
    model: text(128, 'Alias of a model in the configuration.').default('default'),
    temperature: z
      .number(rule('must be a number from 0 to 2'))
      .min(0, rule('must be a number from 0 to 2'))
      .max(2, rule('must be a number from 0 to 2'))
      .optional(),
  },
  'Where the agent runs and which model it uses.',
)

const task = group(
  {
    instruction: text(131_072, 'What the agent must do. Optional if there is a system_prompt.')
      .regex(/\S/, rule('must not be blank'))
      .optional(),
    system_prompt: z
      .string(rule('must be a string'))
      .max(131_072)
      .optional()
      .describe('Who the agent is and how it behaves; sent to the model as its system message.'),
    prompt_template: z
      .string(rule('must be a string'))
      .max(131_072)
      .optional()
      .describe('Handlebars template of the prompt, without escaping.'),
    input_data: z.unknown().optional().describe('Default input of an execution.'),
  },
  'The task.',
)

const security = group(
  {
    network: group(
      {
        mode: oneOf(
          ['allow', 'deny', 'none'],
          'allow: only allowlist; deny: all but denylist; none: no network.',
        ).default('allow'),
        allowlist: listOf(text(253, 'Host, *.host, or *.'), 1_000, 'Hosts that may be reached.').default([]),
        denylist: listOf(text(253, 'Host or *.host.'), 1_000, 'Hosts that may not be reached.').default([]),
      },
      'Network policy.',
    ).optional(),
    filesystem: group(
      {
        read: listOf(text(4_096, 'Path or glob.'), 1_000, 'Paths that may be read. Default: /workspace.').optional(),
        write: listOf(
          text(4_096, 'Path or glob.'),
          1_000,
          'Paths that may be written. Default: nothing if read is set, otherwise /workspace.',
        ).optional(),
        read_only: flag(false, 'Whether writing is forbidden.'),
      },
      'File policy.',
    ).optional(),
    resources: group(
      {
        cpu: cpu('Millicores.').default(1000),
        memory: size('Memory.').default('512Mi'),
        disk: size('Disk.').default('1Gi'),
        timeout: duration('Time for the whole execution.').default('1800s'),
      },
      'Limits.',
    ).prefault({}),
  },
  'What the agent may reach and use.',
)

const volume = group(
  {
    name: text(63, 'Name of the volume.').regex(
      /^[a-zA-Z0-9][a-zA-Z0-9._-]*$/,
      rule('must be letters, digits, dots, hyphens'),
    ),
    storage_class: oneOf(['ephemeral', 'persistent'], 'Whether it outlives the execution.'),
    mount_path: text(1_024, '/workspace or a path below it.'),
    access_mode: oneOf(['read-only', 'read-write'], 'What the agent may do with it.'),
    size_limit: size('Size at most.'),
    type: oneOf(
      ['seaweedfs', 'opendal', 'hostPath', 'seal'],
      "Kind of storage; seaweedfs is the installation's own.",
    ).default('seaweedfs'),
    provider: text(128, 'For opendal.').optional(),
    config: anything('For opendal.').optional(),
    ttl_hours: whole(1, 8_760, 'How long an ephemeral volume is kept.').optional(),
    source: group({ volume_id: text(128, 'Volume to use.') }, 'An existing volume.').optional(),
  },
  'A volume.',
)

const context = z.discriminatedUnion(
  'type',
  [
    group(
      {
        type: z.literal('text'),
        content: text(131_072, 'The text.'),
        description: text(1_024, 'What it is.').optional(),
      },
      'A text.',
    ),
    group(
      {
        type: z.literal('file'),
        path: text(4_096, 'Path in the workspace.'),
        description: text(1_024, 'What it is.').optional(),
      },
      'A file.',
    ),
    group(
      {
        type: z.literal('directory'),
        path: text(4_096, 'Path in the workspace.'),
        description: text(1_024, 'What it is.').optional(),
      },
      'A folder.',
    ),
    group(
      { type: z.literal('url'), url: text(2_048, 'Address.'), description: text(1_024, 'What it is.').optional() },
      'A page.',
    ),
  ],
  rule('must have a type: one of text, file, directory, url'),
)

const firing = {
  enabled: flag(true, 'Whether it fires.'),
  overlap: oneOf(['skip', 'queue', 'allow'], 'What happens if the previous run has not ended.').default('skip'),
  missed: oneOf(['skip', 'once'], 'Whether one run is started if runs were missed while the server was down.').default(
    'once',
  ),
  input: z.unknown().optional().describe('Input of the scheduled executions.'),
}
const schedule = z.discriminatedUnion(
  'type',
  [
    group(
      {
        type: z.literal('cron'),
        cron: text(256, 'Cron expression.'),
        timezone: text(64, 'Time zone.').default('UTC'),
        ...firing,
      },
      'By the calendar.',
    ),
    group(
      { type: z.literal('interval'), seconds: whole(1, 31_536_000, 'Seconds between runs.'), ...firing },
      'Repeatedly, at an interval.',
    ),
    group({ type: z.literal('manual') }, 'Only on request.'),
  ],
  rule('must have a type: one of cron, interval, manual'),
)

const dispatcher = group(
  {
    name: text(128, 'Name of the dispatcher: cmd.'),
    description: z.string().max(4_096).optional(),
    enabled: flag(true, 'Whether it counts.'),
    capabilities: listOf(
      group(
        {
          name: text(128, 'Tool, such as cmd.run.'),
          subcommand_allowlist: z
            .union(
              [
                listOf(text(256, 'Command.'), 1_000, 'Commands.'),
                z.record(z.string(), listOf(text(256, 'First argument.'), 1_000, 'First arguments.')),
              ],
              rule('must be a list of commands, or commands with lists of first arguments'),
            )
            .optional()
            .describe(
              'Commands that may be run: a list of names, or for each name the list of allowed first arguments.',
            ),
        },
        'A tool with its limits.',
      ),
      100,
      'Tools of the dispatcher.',
    ).default([]),
  },
  'Limits of a built-in dispatcher.',
)

const advanced = group(
  {
    warm_pool_size: whole(0, 1_000, 'Only 0 is available.').default(0),
    startup_script: text(131_072, 'Shell script that is run in the workspace before the first iteration.').optional(),
    health_check: anything('Not available.').optional(),
    bootstrap_path: text(
      4_096,
      'Program in the workspace that reads the final answer from standard input. What it prints is the output. The default is cat.',
    ).optional(),
    swarm_enabled: flag(false, 'Only false is available.'),
  },
  'Rarely needed.',
)

const outputHandler = outputHandlerSchema({
  cpu: (description) => cpu(description).transform(millicores),
  size: (description) => size(description).transform(sizeBytes),
  time: (description) => duration(description).transform(durationMs),
})

const spec = group(
  {
    runtime,
    task,
    execution: executionSchema.optional(),
    tools: listOf(text(128, 'Name of a tool.'), 256, 'Tools that the agent may use; none if empty.').default([]),
    builtin_dispatchers: listOf(dispatcher, 16, 'Limits of built-in dispatchers.').default([]),
    security: security.prefault({}),
    security_context: text(128, 'Name of a security context.').optional(),
    volumes: listOf(volume, 32, 'Volumes.').default([]),
    env: textMap(32_768, 'Environment; a value may be secret:NAME or config:NAME.').default({}),
    input_schema: jsonSchema('What the input of an execution must conform to.').optional(),
    context: listOf(context, 64, 'Context that the model gets before the task.').default([]),
    schedule: schedule.optional(),
    advanced: advanced.prefault({}),
    output_handler: outputHandler.optional(),
    type: oneOf(['user', 'system'], 'Has no effect; use security_context.').optional(),
    contexts: listOf(anything('A service.'), 64, 'Has no effect.').optional(),
  },
  'What the agent is.',
)

export const agentManifestSchema = group(
  {
    apiVersion: z.literal(MANIFEST_API_VERSION, rule(`must be ${MANIFEST_API_VERSION}`)),
    kind: z.literal('Agent', rule('must be Agent')),
    metadata,
    spec,
  },
  'Manifest of an agent.',
)

export type WrittenManifest = z.infer<typeof agentManifestSchema>

/** A strict object refuses unknown fields; a manifest with some is accepted, so the published schema allows them. */
function publishedSchema(key: string, title: string, schema: z.ZodType): Readonly<Record<string, unknown>> {
  const { $schema, ...rest } = z.toJSONSchema(schema, {
    io: 'input',
    override({ jsonSchema: node }) {
      if (node.additionalProperties === false) delete node.additionalProperties
    },
  })
  return { $schema, $id: key, title, ...rest }
}

export const agentManifestJsonSchema = (): Readonly<Record<string, unknown>> =>
  publishedSchema(AGENT_SCHEMA_KEY, 'Agent manifest', agentManifestSchema)
