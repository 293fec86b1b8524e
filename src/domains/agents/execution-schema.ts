import { z } from 'zod'
import { webhookMethod, webhookUrl } from '../manifests/output-handler.ts'
import {
  anything,
  duration,
  group,
  jsonSchema,
  listOf,
  oneOf,
  rule,
  seconds,
  share,
  text,
  textMap,
  whole,
} from '../manifests/schema-keywords.ts'

const consensus = oneOf(['weighted_average', 'majority', 'unanimous', 'best_of_n'], 'How several judges agree.')
const judged = {
  criteria: text(32_768, 'What is judged.'),
  min_score: share(0.7, 'Minimum score to pass.'),
  min_confidence: share(0, 'Minimum confidence to pass.'),
  timeout_seconds: seconds('Time limit for a judge.').default(300),
}
const validatorTypes = ['exit_code', 'json_schema', 'regex', 'semantic', 'multi_judge'] as const
const validatorSchema = z.discriminatedUnion(
  'type',
  [
    group(
      {
        type: z.literal('exit_code'),
        expected: whole(0, 255, 'Exit code that passes.').default(0),
        min_score: share(1, 'Minimum score to pass.'),
      },
      'The exit code of the iteration.',
    ),
    group(
      {
        type: z.literal('json_schema'),
        schema: jsonSchema('What the output must conform to.'),
        min_score: share(1, 'Minimum score to pass.'),
      },
      'The output is JSON that conforms to a schema.',
    ),
    group(
      {
        type: z.literal('regex'),
        pattern: text(1_024, 'Regular expression (RE2) to find.'),
        target: text(1_024, 'stdout, stderr, or the path of a file below /workspace.').default('stdout'),
        min_score: share(1, 'Minimum score to pass.'),
      },
      'A pattern is found.',
    ),
    group(
      { type: z.literal('semantic'), judge_agent: text(128, 'Name or id of the judge.'), ...judged },
      'One judge scores the output.',
    ),
    group(
      {
        type: z.literal('multi_judge'),
        judges: listOf(
          z.union(
            [
              text(128, 'Name or id of a judge.'),
              group(
                { agent: text(128, 'Name or id of a judge.'), weight: z.number().positive().max(1_000).default(1) },
                'A judge with a weight.',
              ),
            ],
            rule('must be a name, or agent and weight'),
          ),
          16,
          'The judges.',
        ).min(1, rule('must name at least one judge')),
        ...judged,
        consensus: consensus.default('weighted_average'),
        min_judges_required: whole(1, 16, 'Judges that must have answered.').default(1),
      },
      'Several judges and one consensus.',
    ),
  ],
  rule(`must have a type: one of ${validatorTypes.join(', ')}`),
)

const httpTarget = {
  url: webhookUrl,
  method: webhookMethod.default('POST'),
  headers: textMap(4_096, 'Headers; a value may be secret:NAME, or have {{secret:NAME}} in it.').default({}),
  timeout_seconds: seconds('Time for one request.').optional(),
}
const destination = group(
  {
    name: text(128, 'Name of the destination.'),
    condition: oneOf(['on_success', 'on_failure', 'always'], 'When to notify it.').default('on_success'),
    type: oneOf(['webhook', 'rest', 'email', 'sms'], 'Kind of destination.'),
    webhook: group(httpTarget, 'Where to send the result.').optional(),
    rest: group(httpTarget, 'Where to send the result.').optional(),
    email: anything('Not available.').optional(),
    sms: anything('Not available.').optional(),
    transform: anything('Not available.').optional(),
  },
  'Receiver of the result.',
)

export const executionSchema = group(
  {
    mode: oneOf(
      ['one-shot', 'iterative'],
      'one-shot makes one iteration unless max_iterations says otherwise.',
    ).optional(),
    max_iterations: whole(1, 100, 'Iterations at most: 5, or 1 with mode one-shot.').optional(),
    iteration_timeout: duration('Time for one iteration.').default('600s'),
    llm_timeout_seconds: seconds('Time for one call of the model.').default(300),
    interrupted_calls: oneOf(
      ['retry', 'report'],
      'What happens to a tool call that a crash interrupted: it is repeated, or reported to the model. By default it is repeated if that is harmless.',
    ).optional(),
    validation: listOf(validatorSchema, 32, 'Checks after each iteration, in order.').default([]),
    tool_validation: listOf(validatorSchema, 16, 'Judges that must approve each tool call before it runs.').default([]),
    delivery: group(
      { destinations: listOf(destination, 16, 'Who is told.').default([]) },
      'Where the result is delivered.',
    ).optional(),
    memory: z.boolean(rule('must be true or false')).optional().describe('Has no effect.'),
  },
  'How the agent runs.',
)

export type WrittenValidator = z.infer<typeof validatorSchema>
