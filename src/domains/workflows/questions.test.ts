import { expect, test } from 'vitest'
import { questionText } from './questions.ts'

const asked = (answers: readonly string[] | null) =>
  questionText({
    execution_id: 'run-1',
    state: 'ASK',
    prompt: 'Shall it go on?',
    accepted_answers: answers,
    answer_with: { tool: 'aegis.workflow.signal', arguments: { execution_id: 'run-1', response: '' }, http: '' },
  } as never).split('\n')

test.each<[readonly string[] | null, readonly string[]]>([
  [null, ['Answer with: castellan call aegis.workflow.signal execution_id=run-1 response=ANSWER']],
  [
    ['yes', "don't"],
    [
      'Answer with one of:',
      "castellan call aegis.workflow.signal execution_id=run-1 response='yes'",
      "castellan call aegis.workflow.signal execution_id=run-1 response='don'\\''t'",
    ],
  ],
])('a question with the answers %j is answered by a line that a shell runs as it is', (answers, lines) => {
  expect(asked(answers).slice(1)).toEqual(lines)
})
