import { z } from 'zod'
import { flag, group, listOf, rule, wholeNumber } from './config-parts.ts'

const target = z.string(rule('provider:model')).regex(/^[^:]{1,64}:.{1,256}$/, rule('provider:model'))
const hours = '"HH:MM-HH:MM", such as "22:00-06:00"'
const TIME = '([01][0-9]|2[0-3]):[0-5][0-9]'
const modelRule = z
  .strictObject(
    {
      name: z
        .string(rule('a name'))
        .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, rule('letters, digits, ".", "_" or "-"')),
      when: group(
        {
          provider: z.string(rule('the name of a provider')).min(1).optional().describe('At this provider.'),
          models: listOf('a model').optional().describe('For these models; `gpt-5*` stands for all that begin so.'),
          max_tokens: z
            .int(rule('a whole number'))
            .min(1)
            .optional()
            .describe('Where the request with its tools has at most so many tokens, by its size.'),
          has_tools: z.boolean(rule('true or false')).optional().describe('Where it has tools, or has none.'),
          headers: z
            .record(z.string(), z.string(), rule('names and values'))
            .optional()
            .describe('Where it has these headers with these values. Callers choose them, so they prove nothing.'),
          between: z
            .string(rule(hours))
            .regex(new RegExp(`^${TIME}-${TIME}$`), rule(hours))
            .optional()
            .describe('At these hours, in `limits.time_zone`.'),
        },
        'Which requests; all of it must hold.',
      ),
      use: target.optional().describe('The model that is asked instead, as `provider:model`.'),
      fall_back: z
        .array(target, rule('a list of provider:model'))
        .optional()
        .describe(
          'Models that are asked in turn when the provider cannot be reached, is too slow or too busy, or fails.',
        ),
    },
    rule('an object'),
  )
  .refine(({ use, fall_back }) => use !== undefined || fall_back !== undefined, rule('a rule with use or fall_back'))

export const modelProxySection = group(
  {
    caller_keys: flag(
      true,
      'Whether callers may bring keys of their own for a provider, which are passed on and not kept. They say who they are all the same.',
    ),
    mcp_server_names: listOf('a name')
      .default(['castellan'])
      .describe(
        'Under which names programs have this server among their MCP servers. Only behind one of these a tool name is taken for ours: `mcp__castellan__task_list`.',
      ),
    rules: z
      .array(modelRule, rule('a list of rules'))
      .max(100)
      .default([])
      .describe(
        'Which models are asked in place of others. The first rule that matches and has `use` chooses the model, the first that matches and has `fall_back` those after it.',
      ),
    answer_timeout_secs: wholeNumber(600, 1, 86_400, 'Seconds that a provider may take to begin its answer.'),
    idle_timeout_secs: wholeNumber(300, 1, 86_400, 'Seconds that a provider may be silent in the middle of an answer.'),
  },
  'Requests of programs to language models, through `/v1/PROVIDER/PROXY`.',
)
