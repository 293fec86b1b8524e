import { readFileSync } from 'node:fs'
import { findPrepared } from '../../tools/runtime/prepared-text.ts'
import type { PreparedTool } from '../../tools/runtime/prepared-tools.ts'

const FILE = new URL('../../tools/runtime/prepared-tools.json', import.meta.url)

/** One tool of this program, without parsing what there is about all others; undefined for a name that it does not know. */
export const preparedTool = (name: string): PreparedTool | undefined => findPrepared(readFileSync(FILE), name)
