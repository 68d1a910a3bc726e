#!/usr/bin/env node
// What `npx runnel` and the service start: TypeScript is run from its sources, in this very process.
import { register } from 'tsx/esm/api';

register();
const { main } = await import('./main.ts');
process.exitCode = await main(process.argv.slice(2));
