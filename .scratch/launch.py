import time
import timeit

import torch
from cuda.bindings import driver

import tilewright as tw

a=torch.randn(64,64,device='cuda',dtype=torch.bfloat16); b=torch.randn(64,64,device='cuda',dtype=torch.bfloat16); o=torch.empty_like(a)
def ht(f,N=400):
    best=9
    for _ in range(15):
        torch.cuda.synchronize(); t=time.perf_counter()
        for _ in range(N): f()
        best=min(best,(time.perf_counter()-t)/N); torch.cuda.synchronize()
    return round(best*1e6,2)
def tt(f): return round(min(timeit.repeat(f,number=2000,repeat=7))/2000*1e6,3)
p=tw.plan(a,b,out=o); ex=p._executable; p(a,b,out=o)
ptr=[a.data_ptr(),b.data_ptr(),0,0,o.data_ptr()]
arr=(a,b,None,None,o)
print("plan",ht(lambda:p(a,b,out=o)),"matmul out",ht(lambda:tw.matmul(a,b,out=o)),"matmul",ht(lambda:tw.matmul(a,b)),"exec",ht(lambda:ex(ptr,1.0,0.0,0)),"Ex",ht(lambda:driver.cuLaunchKernelEx(ex._config,ex._function,ex._arguments_address,0)))
print("torch out",ht(lambda:torch.matmul(a,b,out=o)),"torch",ht(lambda:torch.matmul(a,b)),"empty",ht(lambda:torch.empty((64,64),dtype=torch.bfloat16,device='cuda')),"new_empty",ht(lambda:a.new_empty((64,64))),"empty_like",ht(lambda:torch.empty_like(o)))
print("quick",tt(lambda:p._quick_pointers(arr)),"stream",tt(lambda:p._stream(o,0)),"lambda",tt(lambda:None))
