export type EnvValue = Readonly<{ from: 'literal' | 'secret' | 'config'; value: string }>
export type EnvValues = Readonly<Record<string, EnvValue>>

/** Parses values: references to the operator's settings, and literals. */
export const envOf = (env: Readonly<Record<string, string>>): Record<string, EnvValue> =>
  Object.fromEntries(Object.entries(env).map(([name, value]) => [name, envValue(value)]))

function envValue(value: string): EnvValue {
  for (const from of ['secret', 'config'] as const) {
    if (value.startsWith(`${from}:`)) return { from, value: value.slice(from.length + 1) }
  }
  return { from: 'literal', value }
}
