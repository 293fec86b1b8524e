import { z } from 'zod'
import { flag, group, listOf, rule, wholeNumber } from './config-parts.ts'

const targetRule = rule('an object with provider and model')
const target = z.strictObject(
  {
    provider: z.string(targetRule).min(1, targetRule).max(64, targetRule),
    model: z.string(targetRule).min(1, targetRule).max(256, targetRule),
  },
  targetRule,
)
const hoursRule = rule('an object with from and to, each a time such as "22:00"')
const time = z.string(hoursRule).regex(/^([01][0-9]|2[0-3]):[0-5][0-9]$/, hoursRule)
const modelRule = z
  .strictObject(
    {
      name: z
        .string(rule('a name'))
        .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, rule('letters, digits, ".", "_" or "-"')),
      when: group(
        {
          provider: z.string(rule('the name of a provider')).min(1).optional().describe('At this provider.'),
          models: listOf('a model')
            .optional()
            .describe('For these models. `gpt-5*` matches all names that begin with `gpt-5`.'),
          max_tokens: z
            .int(rule('a whole number'))
            .min(1)
            .optional()
            .describe('If the request with its tools has at most this many tokens, estimated from its size.'),
          has_tools: z
            .boolean(rule('true or false'))
            .optional()
            .describe('If the request has tools (`true`) or has none (`false`).'),
          headers: z
            .record(z.string(), z.string(), rule('names and values'))
            .optional()
            .describe(
              'If the request has these headers with these values. Callers choose their headers, so headers prove nothing.',
            ),
          between: z
            .strictObject({ from: time, to: time }, hoursRule)
            .optional()
            .describe('At these hours, in `limits.time_zone`, such as `{ from: "22:00", to: "06:00" }`.'),
        },
        'Which requests the rule matches. All conditions must hold.',
      ),
      use: target.optional().describe('The model that answers instead: its `provider` and `model`.'),
      fall_back: z
        .array(target, rule('a list of objects with provider and model'))
        .optional()
        .describe('Models to try in turn if the provider cannot be reached, is too slow or too busy, or fails.'),
    },
    rule('an object'),
  )
  .refine(
    ({ use, fall_back }) => use !== undefined || fall_back !== undefined,
    rule('a rule that has use or fall_back'),
  )

export const modelProxySection = group(
  {
    caller_keys: flag(
      true,
      'Whether callers may send their own key for a provider. Castellan passes the key on and does not store it. The caller must still authenticate to Castellan.',
    ),
    mcp_server_names: listOf('a name')
      .default(['castellan'])
      .describe(
        'Names under which programs configure this server as an MCP server. A tool name with one of these prefixes, such as `mcp__castellan__task_list`, counts as a tool of this server.',
      ),
    rules: z
      .array(modelRule, rule('a list of rules'))
      .max(100)
      .default([])
      .describe(
        'Which models answer in place of others. The first matching rule with `use` chooses the model. The first matching rule with `fall_back` chooses the models to try after it.',
      ),
    answer_timeout_secs: wholeNumber(600, 1, 86_400, 'Seconds that a provider may take to begin its answer.'),
    idle_timeout_secs: wholeNumber(
      300,
      1,
      86_400,
      'Seconds that a provider may pause within an answer, and that a client may stop reading one.',
    ),
  },
  'Model requests of programs, through `/v1/PROVIDER/PROXY`.',
)
