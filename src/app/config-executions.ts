import { z } from 'zod'
import { providerTypes } from '../models/ports.ts'
import { flag, group, listOf, objectsWith, rule, wholeNumber } from './config-parts.ts'

const nameRule = rule('1 to 64 letters, digits, ".", "_" or "-"')
const name = z.string(nameRule).regex(/^[A-Za-z0-9._-]{1,64}$/, nameRule)
const urlRule = rule('an http:// or https:// URL')
const keyRule = rule('env:NAME; a key is never written into the configuration')
const textRule = rule('text that is not empty')
const cost = () => z.number(rule('a number of dollars')).min(0, rule('a number of dollars')).max(1_000_000).optional()

const model = z.strictObject(
  {
    alias: name,
    model: z.string(textRule).min(1, textRule).max(256, textRule),
    max_output_tokens: z.int(rule('a whole number')).min(1).max(10_000_000).optional(),
    context_window: z.int(rule('a whole number')).min(1).max(100_000_000).optional(),
    temperature: z.number(rule('a number from 0 to 2')).min(0).max(2).optional(),
    cost_per_1k_tokens: cost(),
    input_cost_per_million: cost(),
    output_cost_per_million: cost(),
    cache_read_cost_per_million: cost(),
    cache_write_cost_per_million: cost(),
  },
  rule('an object'),
)

const provider = z.strictObject(
  {
    name,
    type: z.enum(providerTypes, rule(`one of ${providerTypes.join(', ')}`)),
    endpoint: z
      .string(urlRule)
      .refine((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ''), urlRule)
      .optional(),
    api_key: z
      .string(keyRule)
      .regex(/^env:[A-Za-z_][A-Za-z0-9_]*$/, keyRule)
      .optional(),
    enabled: flag(true, 'Whether the provider is used.'),
    stream: flag(true, 'Whether answers are streamed. Set it to false for a server that cannot stream.'),
    models: z.array(model, rule('a list of models')).min(1, rule('a list of at least one model')).max(100),
  },
  rule('an object'),
)

export const modelsSection = group(
  {
    providers: z
      .array(provider, rule('a list of providers'))
      .max(50, rule('a list of at most 50 providers'))
      .default([])
      .describe(
        `Language models. Each: \`name\`, \`type\` (${providerTypes.join(', ')}), \`endpoint\`, \`api_key\` as \`env:NAME\`, \`stream\` (false for a server that cannot stream), and \`models\` with \`alias\` (such as default or judge), \`model\`, \`max_output_tokens\`, \`context_window\` (its size in tokens, for limits on cost), \`temperature\`, and their price as \`input_cost_per_million\` and \`output_cost_per_million\` (and \`cache_read_cost_per_million\` and \`cache_write_cost_per_million\`, if cached tokens have another price) or \`cost_per_1k_tokens\`.`,
      ),
    default_provider: name.optional().describe('Provider to use when several have the alias.'),
    fallback_provider: name.optional().describe('Provider to use when the first one has failed.'),
    max_retries: wholeNumber(3, 0, 20, 'Retries of one model after a transient failure.'),
    retry_delay_ms: wholeNumber(1_000, 1, 60_000, 'Pause before the first retry. It doubles with each retry.'),
    overall_timeout_secs: wholeNumber(300, 1, 86_400, 'Seconds for one request with all its retries.'),
  },
  'Language models that agents use.',
)

const secretRules = objectsWith('name and value (env:VARIABLE)')
const secretValueRule = rule('env:VARIABLE')
const valueRules = objectsWith('name and value')
const imageRules = objectsWith('image and workspace_image')
const entryNameRule = rule('letters, digits, ".", "_", "/" or "-"')
const entryName = /^[A-Za-z0-9._/-]+$/
const imageNameRule = rule('the name of an image')
const imageName = /^[^=\s]+$/

export const executionsSection = group(
  {
    max_concurrent: wholeNumber(
      8,
      1,
      10_000,
      'Number of executions and workflows that run at once. Others are pending.',
    ),
    schedule_floor_secs: wholeNumber(
      10,
      1,
      86_400,
      'Minimum number of seconds between two runs of a schedule. A manifest with a shorter interval is refused.',
    ),
    snapshots: flag(
      true,
      'Takes a snapshot of the workspace of the agent at the end of each iteration, for execution_fork. After the execution, the snapshots stay for a while in archived workspaces. workspace_list shows these with state_filter=archived.',
    ),
    secrets: z
      .array(
        z.strictObject(
          {
            name: z.string(entryNameRule).regex(entryName, entryNameRule),
            value: z.string(secretValueRule).regex(/^env:[A-Za-z_][A-Za-z0-9_]*$/, secretValueRule),
          },
          secretRules.entry,
        ),
        secretRules.list,
      )
      .default([])
      .describe(
        'What `secret:NAME` in a manifest stands for, each with `name` and `value` as `env:VARIABLE`. A value needs at least 6 characters. Records of runs show `***` instead of it.',
      ),
    values: z
      .array(
        z.strictObject(
          { name: z.string(entryNameRule).regex(entryName, entryNameRule), value: z.string(rule('text')) },
          valueRules.entry,
        ),
        valueRules.list,
      )
      .default([])
      .describe('What `config:NAME` in a manifest stands for, each with `name` and `value`.'),
  },
  'Executions of agents.',
)

export const judgingSection = group(
  {
    skip: listOf('the name of a tool').default([]).describe('Tools whose calls skip the judges.'),
    always: listOf('the name of a tool')
      .default([])
      .describe('Tools whose calls are judged even though they skip the judges by default.'),
  },
  'Judges of tool calls, for agents whose manifest has tool_validation.',
)

export const workflowsSection = group(
  {
    judge_agents: listOf('the name of an agent')
      .default([])
      .describe(
        'Agents of the platform (templates, or deployed with the scope global) that judge every workflow before it is registered. A workflow that they do not approve is refused.',
      ),
    images: z
      .array(
        z.strictObject(
          {
            image: z.string(imageNameRule).regex(imageName, imageNameRule),
            workspace_image: z.string(imageNameRule).regex(imageName, imageNameRule),
          },
          imageRules.entry,
        ),
        imageRules.list,
      )
      .default([])
      .describe(
        'Replacements for images that container steps name and this installation does not have, each with `image` and `workspace_image`. The image `*` matches any image. A step whose image is missing and has no replacement fails.',
      ),
  },
  'Workflows.',
)
