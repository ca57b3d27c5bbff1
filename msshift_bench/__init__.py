"""MS-Shift: how much does a retriever lose outside its training distribution?"""
