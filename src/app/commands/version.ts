import { outputFlags } from '../../cli/command.ts'
import type { Command } from './context.ts'

export const command: Command = {
  spec: {
    name: 'version',
    summary: 'Print the version.',
    onlyHere: 'version prints the version of this program. For that of a server: castellan doctor --url URL',
    flags: outputFlags,
  },
  async run({ terminal, json, version }) {
    terminal.out(json ? `${JSON.stringify({ version })}\n` : `${version}\n`)
    return 0
  },
}
