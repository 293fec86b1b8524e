import type { Migration } from './migrations.ts'

/** Programs that act for themselves. Each also has a row in `oauth_clients`, to which its tokens belong. */
export const serviceClientMigrations: readonly Migration[] = [
  {
    name: 'service clients',
    statements: [
      `CREATE TABLE service_clients (
        tenant TEXT NOT NULL, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, secret_hash TEXT NOT NULL, role TEXT NOT NULL,
        tier TEXT NOT NULL, gateways TEXT NOT NULL, created_at $integer NOT NULL, created_by TEXT NOT NULL,
        PRIMARY KEY (tenant, id), UNIQUE (tenant, name))`,
    ],
  },
]
