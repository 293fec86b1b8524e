import { yamlLibrary } from '../domains/templating/yaml-library.ts'
import { type Config, showConfig } from './config.ts'

/** The configuration in force as a file would have it, secrets left out as `config show` leaves them out. */
export function displayedConfig(config: Config, path: string | undefined): { path: string; yaml: string } {
  const root: Record<string, unknown> = {}
  for (const { field, value } of showConfig({ config, sources: new Map(), warnings: [] })) {
    if (value === null) continue
    const keys = field.split('.')
    let group = root
    for (const key of keys.slice(0, -1)) {
      group[key] ??= {}
      group = group[key] as Record<string, unknown>
    }
    group[keys.at(-1)!] = value
  }
  return { path: path ?? '', yaml: yamlLibrary().stringify(root, { lineWidth: 0 }) }
}
