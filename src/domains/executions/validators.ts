import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { AgentManifest } from '../agents/manifest.ts'
import { compileJsonSchema, compilePattern } from '../manifests/json-schema.ts'
import type { Grade, Signal } from '../runs/consensus.ts'
import { parseJsonOutput } from '../runs/verdicts.ts'

export type Validator = AgentManifest['execution']['validation'][number]
type MachineValidator = Extract<Validator, { type: 'exit_code' | 'json_schema' | 'regex' }>

/** The output of an iteration, for its validators. */
export type IterationOutput = Readonly<{ exitCode: number; stdout: string; stderr: string }>

export const isMachineValidator = (validator: Validator): validator is MachineValidator =>
  validator.type === 'exit_code' || validator.type === 'json_schema' || validator.type === 'regex'

/** The score of a rule without a judge: 1 or 0, with full confidence. `file` is the content of `target`, if it is a file. */
export function gradeByRule(validator: MachineValidator, output: IterationOutput, file?: string): Grade {
  switch (validator.type) {
    case 'exit_code': {
      const isRight = output.exitCode === validator.expected
      return binary(isRight, `the exit code is ${output.exitCode}, expected ${validator.expected}`, 'exit_code')
    }
    case 'json_schema':
      return gradeBySchema(validator.schema, output.stdout)
    case 'regex': {
      const text = textOf(validator.target, output, file)
      if (text === undefined) return binary(false, `${validator.target} does not exist`, 'regex')
      return gradeByPattern(validator, text)
    }
  }
}

/** Patterns that would block the server are refused by counted work, so that a replay refuses the same. */
function gradeByPattern({ pattern, target }: Extract<Validator, { type: 'regex' }>, text: string): Grade {
  const compiled = compilePattern(pattern)
  if ('reason' in compiled) throw badValidator('regex.pattern', compiled.reason)
  if (compiled.size * text.length > limits.patternWorkMax) {
    const charsMax = Math.floor(limits.patternWorkMax / compiled.size)
    return binary(
      false,
      `${target} has ${text.length} characters, but the pattern ${pattern} is searched in at most ${charsMax} (its compiled size is ${compiled.size}); print less, or use a smaller pattern`,
      'regex',
    )
  }
  const isFound = compiled.test(text)
  return binary(isFound, `${target} ${isFound ? 'matches' : 'does not match'} the pattern ${pattern}`, 'regex')
}

function textOf(target: string, output: IterationOutput, file: string | undefined): string | undefined {
  if (target === 'stdout') return output.stdout
  return target === 'stderr' ? output.stderr : file
}

function gradeBySchema(schema: Json, text: string): Grade {
  const compiled = compileJsonSchema(schema)
  if (!compiled.ok) throw badValidator('json_schema.schema', compiled.reason)
  const parsed = parseJsonOutput(text)
  if (parsed === undefined) return binary(false, 'the output is not JSON', 'json_schema')
  const errors = compiled.check(parsed.value)
  return binary(errors.length === 0, errors.length === 0 ? 'the output conforms' : errors.join('; '), 'json_schema')
}

const binary = (isRight: boolean, reasoning: string, category: string): Grade => {
  const score = isRight ? 1 : 0
  const signals: Signal[] = [{ category, score, message: reasoning }]
  return { score, confidence: 1, reasoning, signals, metadata: {} }
}

const badValidator = (field: string, reason: string): AppError =>
  new AppError('ERR_VALIDATOR_FAILED', `spec.execution.validation: ${field} cannot be used: ${reason}`, { field })

/** The bootstrap program's own messages are not the agent's output. */
export const withoutBootstrapLines = (text: string): string =>
  text.includes('[BOOTSTRAP') ? text.replaceAll(/^\[BOOTSTRAP.*(?:\n|$)/gm, '') : text
