import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Connection } from './client.ts'
import { castellanCommand } from './launch.ts'

export type ExportedLog = Readonly<{ file: string; key: string; entries: number }>

export const exportLog = async (connection: Connection, directory: string): Promise<ExportedLog> => {
  void connection
  throw new Error(`cannot export yet into ${directory}`)
}

export const verifyExport = async ({ file, key }: ExportedLog): Promise<void> => {
  await promisify(execFile)(castellanCommand, ['verify', file, '--key', key])
}
