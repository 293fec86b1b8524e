import { dialects, openEmpty } from '../support/databases.ts'
import { apiKeyStoreSuite } from './api-key-store-suite.ts'

for (const dialect of dialects) apiKeyStoreSuite(dialect, () => openEmpty(dialect))
