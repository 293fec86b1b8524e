import { z } from 'zod'
import { limits } from '../../contract/limits.ts'

export const fsParams = {
  path: (what: string) =>
    z.string().max(4_096).describe(`${what} Relative paths begin at /workspace; '..' is refused.`),
  target: z.string().min(1).max(limits.fileWriteCharsMax).describe('Text to replace; it must occur exactly once.'),
  replacement: z.string().max(limits.fileWriteCharsMax).describe('Text to put in its place.'),
  pattern: (what: string) => z.string().min(1).max(limits.agentPatternCharsMax).describe(what),
} as const

export const fsFields = {
  status: z.literal('success'),
  path: z.string().describe('The path, absolute.'),
  found: {
    result: z.string().describe('One line for each, in order of their paths; empty when there is none.'),
    count: z.int(),
    truncated: z.boolean().describe('Whether there is more than is shown.'),
  },
} as const
