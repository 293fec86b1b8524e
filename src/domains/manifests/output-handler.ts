import { z } from 'zod'
import type { JsonObject } from '../../kernel/canonical-json.ts'
import { envOf } from './env-values.ts'
import {
  anything,
  commandWords,
  filled,
  flag,
  group,
  number,
  oneOf,
  rule,
  template,
  text,
  values,
  whole,
} from './schema-keywords.ts'

const TEMPLATE_MAX = 131_072

export const webhookUrl = text(2_048, 'Address.').regex(
  /^https?:\/\//i,
  rule('must be an address that begins with https:// or http://'),
)
export const webhookMethod = oneOf(['POST', 'PUT', 'PATCH'], 'HTTP method.')

/** The units of the manifest's kind, parsed to millicores, bytes and milliseconds. */
type Units = Readonly<Record<'cpu' | 'size' | 'time', (description: string) => z.ZodType<number, string | number>>>

const common = {
  timeout_seconds: number(1, 86_400, 'Time limit.').optional(),
  required: flag(false, 'Whether a failure of the handler fails the run or the state.'),
}
type Common = Readonly<{ timeout_seconds?: number | undefined; required: boolean }>
const commonOf = ({ timeout_seconds: time, required }: Common) => ({
  timeoutMs: time === undefined ? null : time * 1_000,
  required,
})

const agent = group(
  {
    type: z.literal('agent'),
    agent_id: filled(256, 'Name or id of the agent that transforms the output.'),
    input_template: template(TEMPLATE_MAX, 'Template with {{output}} and {{intent}}.').optional(),
    ...common,
  },
  'Another agent.',
).transform(({ agent_id, input_template, ...rest }) => ({
  type: 'agent' as const,
  agentId: agent_id,
  inputTemplate: input_template ?? null,
  ...commonOf(rest),
}))

const webhook = group(
  {
    type: z.literal('webhook'),
    url: webhookUrl,
    method: webhookMethod.default('POST'),
    headers: values(4_096, 'Headers; a value may be secret:NAME or config:NAME.').default({}),
    body_template: template(
      TEMPLATE_MAX,
      'Template of the body, with {{output}} and {{intent}}. Default: JSON with the output.',
    ).optional(),
    retry: whole(0, 10, 'Further tries.').default(0),
    ...common,
  },
  'A request.',
).transform(({ url, method, headers, body_template, retry, ...rest }) => ({
  type: 'webhook' as const,
  url,
  method,
  headers: envOf(headers),
  bodyTemplate: body_template ?? null,
  retries: retry,
  ...commonOf(rest),
}))

const container = ({ cpu, size, time }: Units) =>
  group(
    {
      type: z.literal('container'),
      image: filled(512, 'Image.'),
      command: commandWords,
      env: values(100_000, 'Variables; a value may be secret:NAME or config:NAME.').default({}),
      resources: group(
        {
          cpu: cpu('Millicores.').optional(),
          memory: size('Memory.').optional(),
          disk: size('Disk.').optional(),
          timeout: time('Time limit.').optional(),
        },
        'Limits. Default: those of the run or the state.',
      ).prefault({}),
      ...common,
    },
    'A command in a workspace.',
  ).transform(({ image, command, env, resources, ...rest }) => ({
    type: 'container' as const,
    image,
    command,
    env: envOf(env),
    resources: {
      ...(resources.cpu !== undefined && { cpuMillicores: resources.cpu }),
      ...(resources.memory !== undefined && { memoryBytes: resources.memory }),
      ...(resources.disk !== undefined && { diskBytes: resources.disk }),
    },
    ...commonOf(rest),
    timeoutMs: commonOf(rest).timeoutMs ?? resources.timeout ?? null,
  }))

const tool = group(
  {
    type: z.literal('mcp_tool'),
    tool_name: filled(256, 'Tool.'),
    arguments: anything('Arguments; texts are templates.').default({}),
    ...common,
  },
  'A tool.',
).transform(({ tool_name, arguments: input, ...rest }) => ({
  type: 'mcp_tool' as const,
  toolName: tool_name,
  arguments: input as JsonObject,
  ...commonOf(rest),
}))

/** The output handler; its result replaces the output. Runs store the parsed form, so its fields must stay. */
export const outputHandlerSchema = (units: Units) =>
  z.discriminatedUnion(
    'type',
    [agent, webhook, container(units), tool],
    rule('must have a type: one of agent, webhook, container, mcp_tool'),
  )

export type OutputHandler = z.output<ReturnType<typeof outputHandlerSchema>>
